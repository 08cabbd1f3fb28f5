// A document for React, and components in it. Imported before react-dom, which looks for a document once.

import { Window } from "happy-dom";

const window = new Window({ url: "http://localhost/" });
for (const [name, value] of Object.entries({ window, document: window.document, navigator: window.navigator })) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}
// Makes React say so when something changes that no test waits for.
Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
