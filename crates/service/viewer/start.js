// Starts the viewer (Scalar). All that would ask another address, or belongs to its makers' other
// products, is off; the page's policy forbids it as well.

const SETTINGS = {
  // curl, Python and TypeScript, one of each; a key that is put in stands in all of them. What the
  // viewer has a tab for and `snippet` writes as TypeScript is called undici by it.
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  hiddenClients: {
    shell: ["wget", "httpie"],
    python: ["aiohttp", "httpx_sync", "httpx_async", "requests"],
    node: ["axios", "fetch", "ofetch"],
    js: true, c: true, clojure: true, csharp: true, dart: true, fsharp: true, go: true, http: true,
    java: true, julia: true, kotlin: true, objc: true, ocaml: true, php: true, powershell: true,
    r: true, ruby: true, rust: true, swift: true,
  },
  // One field for each: what people do takes their token, what programs do takes a key.
  authentication: { preferredSecurityScheme: ["api_key", "portal_token"] },
  persistAuth: false,
  withDefaultFonts: false,
  // Words in the cells of tables are names of the API: they are not broken, and a table that is
  // wider than a phone is moved by itself. Commands of the guides are broken: what is beyond the
  // edge is not read. The viewer's own rules are more specific.
  customCss: `.markdown td code { white-space: nowrap !important; }
    .markdown th, .markdown td { word-break: normal !important; overflow-wrap: normal !important; }
    .markdown pre code { white-space: pre-wrap !important; }
    .markdown table { display: block !important; overflow-x: auto !important;
      max-width: 100% !important; }
    /* Shown on hover alone, beside a title, and beyond the edge where the title fills its line. */
    @media (max-width: 600px) { [class~="group/heading"] button { display: none !important; } }`,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
};

// The viewer sends what is in both fields; where a key is good, a token beside it is one too many.
function withOneCredential(paths, request) {
  const { method, path, security } = request;
  const takes = paths[path.raw]?.[method.toLowerCase()]?.security ?? [];
  const given = security.filter(({ value }) => value !== "");
  const keys = given.filter(({ name }) => name === "X-API-Key");
  const isEnough = keys.length > 0 && takes.some((scheme) => "api_key" in scheme);
  request.security = isEnough ? keys : given;
}

// The guides show a sandbox on a laptop; the page of a sandbox shows its own address.
const LAPTOP = "http://127.0.0.1:8081";
fetch("/docs/openapi.json").then((answer) => answer.text()).then((description) => {
  const isSandbox = description.includes('"/v1/sandbox/');
  const here = isSandbox ? description.replaceAll(LAPTOP, location.origin) : description;
  const content = JSON.parse(here);
  const onBeforeRequest = ({ requestBuilder }) => withOneCredential(content.paths, requestBuilder);
  Scalar.createApiReference("#reference", { content, onBeforeRequest, ...SETTINGS });
});

// What stands in the place of a file, for whoever copies it to put in their own.
const FILE = { name: "screenshot.png", type: "image/png" };

// The viewer asks this before it writes a snippet (docs/decisions/0025), and writes it by itself
// where this gives nothing. It calls what is to be sent a file `@filename` and takes it for a text.
function snippet(language, client, request) {
  const { headers, postData } = request;
  if (postData?.params && postData.mimeType === "multipart/form-data") {
    for (const part of postData.params.filter(({ value }) => value === "@filename")) {
      delete part.value;
      part.fileName = FILE.name;
    }
    // Whoever writes the body knows its boundary.
    request.headers = headers.filter(({ name }) => name.toLowerCase() !== "content-type");
  }
  return language === "node" && client === "undici" ? typescript(request) : undefined;
}

// A program of its own for Node, without packages: pasted, it prints the answer as the others do.
function typescript({ method, url, queryString, headers, postData }) {
  const lines = [];
  const value = (of) => JSON.stringify(of, null, 2).replaceAll("\n", "\n    ");
  const query = queryString.map(({ name, value }) => `${name}=${value}`).join("&");
  const options = method.toUpperCase() === "GET" ? [] : [`method: "${method.toUpperCase()}",`];
  const named = headers.map(({ name, value }) => [name, value]);
  if (named.length > 0) options.push(`headers: ${value(Object.fromEntries(named))},`);
  if (postData?.params) {
    lines.push(`const { readFile } = await import("node:fs/promises");`);
    lines.push(`const body = new FormData();`);
    for (const { name, value, fileName } of postData.params) {
      const given = fileName ? `file, "${fileName}"` : JSON.stringify(value);
      if (fileName) {
        lines.push(`const bytes = new Uint8Array(await readFile("${fileName}"));`);
        lines.push(`const file = new Blob([bytes], { type: "${FILE.type}" });`);
      }
      lines.push(`body.append("${name}", ${given});`);
    }
    options.push("body,");
  } else if (postData?.text) {
    const isJson = postData.mimeType === "application/json";
    const text = isJson ? value(JSON.parse(postData.text)) : JSON.stringify(postData.text);
    options.push(isJson ? `body: JSON.stringify(${text}),` : `body: ${text},`);
  }
  const address = JSON.stringify(query ? `${url}?${query}` : url);
  const inner = options.map((option) => `    ${option}\n`).join("");
  lines.push(`const answer = await fetch(${address}${inner ? `, {\n${inner}  }` : ""});`);
  lines.push("console.log(await answer.text());");
  return `async function main() {\n${lines.map((line) => `  ${line}\n`).join("")}}\nmain();`;
}

// The tab of the viewer that has Node's language shows TypeScript, and is called so here.
const LABELS = { "Node.js": "TypeScript", "Node.js undici": "TypeScript" };
// What the viewer has in the empty key field reads like a key.
const NO_KEY = "QUxMIFlPVVIgQkFTRSBBUkUgQkVMT05HIFRPIFVT";
const LIKE_A_KEY = "est_test_… or est_live_…";
function relabel(node) {
  if (node.nodeType === Node.TEXT_NODE) {
    const label = LABELS[node.data.trim()];
    if (label) node.data = label;
  } else {
    if (node.placeholder === NO_KEY) node.placeholder = LIKE_A_KEY;
    node.childNodes.forEach(relabel);
  }
}
new MutationObserver((changes) => {
  for (const { type, target, addedNodes } of changes) {
    if (type === "characterData") relabel(target);
    else addedNodes.forEach(relabel);
  }
}).observe(document.body, { childList: true, characterData: true, subtree: true });
