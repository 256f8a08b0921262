// Starts the viewer (Scalar). All that would ask another address, or belongs to its makers' other
// products, is off; the page's policy forbids it as well.

// What makes something comes first, then what reads, then what changes and ends it; short paths
// before long ones.
const METHODS = ["post", "get", "put", "patch", "delete"];
const rank = ({ httpVerb, method, path }) =>
  METHODS.indexOf((httpVerb ?? method).toLowerCase()) * 100 + path.split("/").length;

const SETTINGS = {
  operationsSorter: (one, other) =>
    rank(one) - rank(other) || one.path.localeCompare(other.path),
  // curl, Python and TypeScript; a key that is put in stands in all of them.
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  hiddenClients: {
    shell: ["wget", "httpie"],
    python: ["python3", "aiohttp", "httpx_sync", "httpx_async"],
    js: ["axios", "ofetch", "jquery", "xhr"],
    node: true, c: true, clojure: true, csharp: true, dart: true, fsharp: true, go: true,
    http: true, java: true, kotlin: true, objc: true, ocaml: true, php: true, powershell: true,
    r: true, ruby: true, rust: true, swift: true,
  },
  authentication: { preferredSecurityScheme: "api_key" },
  persistAuth: false,
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
};

// The guides show a sandbox on a laptop; the page of a sandbox shows its own address.
const LAPTOP = "http://127.0.0.1:8081";
fetch("/docs/openapi.json").then((answer) => answer.text()).then((description) => {
  const isSandbox = description.includes('"/v1/sandbox/');
  const content = isSandbox ? description.replaceAll(LAPTOP, location.origin) : description;
  Scalar.createApiReference("#reference", { content, ...SETTINGS });
});

// What the viewer writes with `fetch` is TypeScript as it stands, and called so here.
const LABELS = { "JavaScript": "TypeScript", "JavaScript Fetch": "TypeScript Fetch" };
function relabel(node) {
  if (node.nodeType === Node.TEXT_NODE) {
    const label = LABELS[node.data.trim()];
    if (label) node.data = label;
  } else {
    node.childNodes.forEach(relabel);
  }
}
new MutationObserver((changes) => {
  for (const { type, target, addedNodes } of changes) {
    if (type === "characterData") relabel(target);
    else addedNodes.forEach(relabel);
  }
}).observe(document.body, { childList: true, characterData: true, subtree: true });
