// A screen that fails to draw must not take the navigation with it.
import type { ComponentChildren } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { route } from "../lib/route.ts";
import { Button, Foreign } from "./basics.tsx";
import { Icon } from "./icons.tsx";

/** Shows the error instead of what is inside, until the viewer goes on or tries again. */
export function ErrorBoundary({ children }: { children: ComponentChildren }) {
  const [error, again] = useErrorBoundary((problem: unknown) => console.error(problem));
  const at = route.value;
  useEffect(() => {
    if (error !== undefined) again();
  }, [at]);
  if (error === undefined) return <>{children}</>;
  return (
    <div class="banner">
      <Icon name="warning" />
      <div><span role="alert">The dashboard cannot show this: <Foreign text={error instanceof Error ? error.message : String(error)} most={300} />.</span> That is a fault of the page, not of your data. Other screens and the command line are not affected.</div>
      <Button onClick={again}>Try again</Button>
    </div>
  );
}
