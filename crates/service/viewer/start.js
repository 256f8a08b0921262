// Starts the viewer (Scalar). All that would ask another address, or belongs to its makers' other
// products, is off; the page's policy forbids it as well.

const SETTINGS = {
  // curl, Python and TypeScript; a key that is put in stands in all of them. Those that the viewer
  // shows as tabs are among them, one of each; more of the three are behind "More".
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  hiddenClients: {
    shell: ["wget", "httpie"],
    python: ["aiohttp", "httpx_sync", "httpx_async"],
    js: ["axios", "ofetch", "jquery", "xhr"],
    node: ["axios", "fetch", "ofetch"],
    c: true, clojure: true, csharp: true, dart: true, fsharp: true, go: true,
    http: true, java: true, julia: true, kotlin: true, objc: true, ocaml: true, php: true, powershell: true,
    r: true, ruby: true, rust: true, swift: true,
  },
  authentication: { preferredSecurityScheme: "api_key" },
  persistAuth: false,
  withDefaultFonts: false,
  // Words in the cells of tables are names of the API: they are not broken. Commands of the guides
  // are: what is beyond the edge is not read. The viewer's own rules are more specific.
  customCss: `.markdown td code { white-space: nowrap !important; }
    .markdown th, .markdown td { word-break: normal !important; overflow-wrap: normal !important; }
    .markdown pre code { white-space: pre-wrap !important; }`,
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

// What the viewer writes with `fetch` and `undici` is TypeScript as it stands, and called so here.
const LABELS = {
  "JavaScript": "TypeScript", "JavaScript Fetch": "TypeScript Fetch",
  "Node.js": "TypeScript", "Node.js undici": "TypeScript undici",
};
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
