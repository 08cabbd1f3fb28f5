import { test } from "node:test";
import { execute } from "../support/package.ts";

test("the page of the API is what the types say", async () => {
  await execute("node", ["tools/api.mjs", "--check"]);
});
