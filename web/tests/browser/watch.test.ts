// The checks behind every test notice a violation: the pages here break the rules on purpose.
import assert from "node:assert/strict";
import { browserTest, eventually } from "./harness/world.ts";

const BREACHES: readonly (readonly [what: string, code: string, told: RegExp])[] = [
  ["markup from a string", `try { document.body.innerHTML = "<b>bold</b>"; } catch {}`, /refused require-trusted-types-for/],
  ["a policy for trusted types", `try { trustedTypes.createPolicy("mine", {}); } catch {}`, /refused trusted-types/],
  ["code in an attribute", `try { document.body.setAttribute("onclick", "1"); } catch {}`, /refused (script-src|require-trusted-types-for)/],
  ["a request to another origin", `fetch("http://127.0.0.1:9/").catch(() => undefined)`, /refused connect-src|another origin/],
  ["an image of another origin", `new Image().src = "http://127.0.0.1:9/image.png"`, /refused img-src|another origin/],
  ["a style in an attribute", `document.body.setAttribute("style", "color: red")`, /refused style-src/],
  ["an error that nobody catches", `setTimeout(() => { throw new Error("thrown on purpose"); }); 0`, /the page threw .*thrown on purpose/],
  ["an error in the console", `console.error("said on purpose")`, /console has an error: said on purpose/],
];

for (const [what, code, told] of BREACHES) {
  browserTest(`a page that breaks a rule is found out: ${what}`, async ({ open }) => {
    const viewer = await open();
    assert.deepEqual(viewer.violations, []);
    await viewer.evaluate(`{ ${code} }`);
    await eventually(`it is told: ${String(told)}`, () => Promise.resolve(viewer.violations.some((text) => told.test(text))));
    viewer.violations.length = 0;
  });
}
