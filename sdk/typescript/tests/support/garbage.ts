import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Whether something is still kept after a collection of garbage. */
export async function isKept(ref: WeakRef<object>): Promise<boolean> {
  // A reference that was looked at holds its target until the end of the task.
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  return ref.deref() !== undefined;
}
