"""Regular expressions over digits as one minimal automaton without loops.

`States` keeps every state once, whichever pattern it comes from. A number is walked digit by digit;
what the state where it ends says is the answer. Patterns are those of telephone numbers: bounded,
without references and looks behind or ahead, but for `$`.
"""

import re

try:
    from re import _constants as op, _parser as parser
except ImportError:  # before Python 3.11
    import sre_constants as op
    import sre_parse as parser

DIGITS = range(10)
# Most digits without the country code: longer ones are not looked at.
LONGEST = 17


class States:
    """States that are all different: what each says, and where each digit leads."""

    def __init__(self):
        self.says, self.next, self.known = [], [], {}

    def last(self, says):
        """The state that says this, and stays for any digit."""
        return self.state(says, None)

    def state(self, says, following):
        """The state that says this, and is followed by those."""
        if following:
            first = following[0]
            if following == [first] * 10 and self.says[first] == says and self.stays(first):
                return first
        key = (says, tuple(following or ()))
        if key not in self.known:
            number = self.known[key] = len(self.says)
            self.says.append(says)
            self.next.append(tuple(following) if following else (number,) * 10)
        return self.known[key]

    def stays(self, state):
        """Whether every digit leads back to it."""
        return self.next[state][0] == state

    def walk(self, state, digits):
        """What is said of these digits."""
        for digit in digits:
            state = self.next[state][int(digit)]
        return self.says[state]


class Program:
    """Patterns as instructions: what a digit must be, where to go on, what has been found."""

    def __init__(self):
        self.code = []

    def add(self, *instruction):
        """The place of an instruction."""
        self.code.append(instruction)
        return len(self.code) - 1

    def whole(self, pattern, tag):
        """The start of a pattern that is to match all of a number."""
        return self.compile(parser.parse(pattern), self.add("found", tag))

    def beginning(self, pattern, tag):
        """The start of a pattern that is to match how a number begins."""
        place = self.add("found", tag)
        any_digit = self.add("digit", (1 << 10) - 1, place)
        self.code[place] = ("split", [self.add("found", tag), any_digit])
        return self.compile(parser.parse(pattern), place)

    def compile(self, items, after):
        """Instructions for parsed items that lead to `after`."""
        for name, value in reversed(list(items)):
            after = self.item(name, value, after)
        return after

    def item(self, name, value, after):
        """Instructions for one parsed item."""
        if name is op.LITERAL:
            return self.add("digit", 1 << int(chr(value)), after)
        if name is op.IN:
            return self.add("digit", digits_of(value), after)
        if name is op.BRANCH:
            return self.add("split", [self.compile(branch, after) for branch in value[1]])
        if name is op.SUBPATTERN:
            group, _, _, items = value
            if group is None:
                return self.compile(items, after)
            end = self.add("mark", 2 * group + 1, after)
            return self.add("mark", 2 * group, self.compile(items, end))
        if name is op.MAX_REPEAT:
            least, most, items = value
            if most is op.MAXREPEAT:
                raise ValueError("a pattern without bounds")
            end = after
            for _ in range(most - least):
                after = self.add("split", [self.compile(items, after), end])
            for _ in range(least):
                after = self.compile(items, after)
            return after
        if name is op.AT and value is op.AT_END and self.code[after][0] == "found":
            return self.add("end", after)
        raise ValueError(f"a pattern has {name}")


def digits_of(items):
    """The digits of a set, as bits."""
    bits = 0
    for name, value in items:
        if name is op.LITERAL:
            bits |= 1 << int(chr(value))
        elif name is op.RANGE:
            for letter in range(value[0], value[1] + 1):
                bits |= 1 << int(chr(letter))
        elif name is op.CATEGORY and value is op.CATEGORY_DIGIT:
            bits |= (1 << 10) - 1
        else:
            raise ValueError(f"a set has {name}")
    return bits


def widths(pattern):
    """How many digits each group of a pattern has, least and most; it has nothing else."""
    found = []
    for name, value in parser.parse(pattern):
        if name is not op.SUBPATTERN or value[0] != len(found) + 1:
            raise ValueError(f"{pattern} has more than groups")
        found.append(value[3].getwidth())
    return found


class Recogniser:
    """Walks many patterns at once, as a set of places: which of them does a number match?"""

    def __init__(self, program, starts):
        self.program, self.bits = program, {}
        # For each place that waits for a digit: where each digit leads.
        self.steps, self.found = [], {}
        self.start = self.closure(starts)
        self.lead = {}

    def bit(self, place):
        """The bit of a place, which is numbered when it is first met."""
        if place not in self.bits:
            self.bits[place] = len(self.steps)
            self.steps.append(place)
            kind, *rest = self.program.code[place]
            if kind == "found":
                self.found[self.bits[place]] = rest[0]
        return 1 << self.bits[place]

    def closure(self, places):
        """The set of places that are reached without a digit."""
        reached, open_places, seen = 0, list(places), set()
        while open_places:
            place = open_places.pop()
            if place in seen:
                continue
            seen.add(place)
            kind, *rest = self.program.code[place]
            if kind in ("digit", "found"):
                reached |= self.bit(place)
            elif kind == "split":
                open_places.extend(rest[0])
            elif kind == "mark":
                open_places.append(rest[1])
            else:
                raise ValueError(f"a set of patterns has {kind}")
        return reached

    def after(self, number):
        """Where each digit leads from the place of this bit."""
        if number not in self.lead:
            kind, *rest = self.program.code[self.steps[number]]
            reached = self.closure([rest[1]]) if kind == "digit" else 0
            digits = rest[0] if kind == "digit" else 0
            self.lead[number] = [reached if digits >> digit & 1 else 0 for digit in DIGITS]
        return self.lead[number]

    def state(self, states, says):
        """The minimal automaton, as a state of `states`; `says(tags, length)` gives what is said of
        a number of that length which matches the patterns of those tags."""
        known = {}

        def of(places, length):
            if (places, length) in known:
                return known[places, length]
            following, tags = [0] * 10, []
            for number in bits_of(places):
                if number in self.found:
                    tags.append(self.found[number])
                else:
                    lead = self.after(number)
                    following = [one | more for one, more in zip(following, lead)]
            word = says(frozenset(tags), length)
            if length == LONGEST or not any(following):
                rest = [states.last(word if length == LONGEST else says(frozenset(), LONGEST))] * 10
            else:
                rest = [of(places, length + 1) for places in following]
            known[places, length] = states.state(word, rest)
            return known[places, length]

        return of(self.start, 0)


def bits_of(places):
    """The numbers of the bits that are set."""
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


class Prefix:
    """What the first alternative of a pattern takes off the front of a number, and its groups: as
    a regular expression that tries one way after the other does."""

    def __init__(self, pattern):
        self.program = Program()
        self.start = self.program.whole(pattern, "taken")

    def threads(self, place, marks, length):
        """The ways on from a place, the first to be tried first."""
        kind, *rest = self.program.code[place]
        if kind == "split":
            for one in rest[0]:
                yield from self.threads(one, marks, length)
        elif kind == "mark":
            yield from self.threads(rest[1], {**marks, rest[0]: length}, length)
        else:
            yield kind, place, marks

    def ways(self, places, length):
        """The ways on from places, each once."""
        found, seen = [], set()
        for place, marks in places:
            for kind, to, its in self.threads(place, marks, length):
                if to not in seen:
                    seen.add(to)
                    found.append((kind, to, its))
        return found

    def step(self, waiting, digit, length):
        """The ways on after a digit."""
        places = []
        for place, marks in waiting:
            _, digits, to = self.program.code[place]
            if digits >> digit & 1:
                places.append((to, marks))
        return self.ways(places, length)

    def state(self, states, says):
        """The minimal automaton; `says(marks)` gives what is said where the pattern has matched:
        marks 0 and 1 are its start and end, 2n and 2n + 1 those of group n. None: it has not."""
        known = {}

        def of(ways, best, length):
            key = repr((ways, best, length))
            if key in known:
                return known[key]
            waiting, at_end = [], None
            for kind, place, marks in ways:
                if kind == "found":
                    best = {**marks, 0: 0, 1: length}
                    break
                if kind == "end":
                    at_end = at_end or {**marks, 0: 0, 1: length}
                else:
                    waiting.append((place, marks))
            if waiting:
                rest = [of(self.step(waiting, digit, length + 1), best, length + 1)
                        for digit in DIGITS]
            else:
                rest = [states.last(says(best))] * 10
            # A way that ends with the number was to be tried before what has matched so far.
            known[key] = states.state(says(at_end or best), rest)
            return known[key]

        return of(self.ways([(self.start, {})], 0), None, 0)
