// The dashboard of a hub. `lib` has its state and the requests, `ui` the components, `screens` the pages.
import "uplot/dist/uPlot.min.css";
import "./styles.css";
import { effect, signal } from "@preact/signals";
import { options, render } from "preact";
import { identify } from "./lib/api.ts";
import * as clock from "./lib/clock.ts";
import { generation } from "./lib/data.ts";
import { visible } from "./lib/format.ts";
import { inFrame } from "./lib/frames.ts";
import * as keys from "./lib/keys.ts";
import * as live from "./lib/live.ts";
import * as route from "./lib/route.ts";
import * as session from "./lib/session.ts";
import * as theme from "./lib/theme.ts";
import * as windows from "./lib/windows.ts";
import { Audit } from "./screens/audit.tsx";
import { Connections } from "./screens/connections.tsx";
import { EventScreen } from "./screens/event.tsx";
import { Find } from "./screens/find.tsx";
import { GroupScreen } from "./screens/group.tsx";
import { Groups } from "./screens/groups.tsx";
import { Hubs } from "./screens/hubs.tsx";
import { Letters } from "./screens/letters.tsx";
import { Outboxes } from "./screens/outboxes.tsx";
import { Overview } from "./screens/overview.tsx";
import { Push } from "./screens/push.tsx";
import { Quotas } from "./screens/quotas.tsx";
import { StateScreen } from "./screens/state.tsx";
import { TopicScreen } from "./screens/topic.tsx";
import { Topics } from "./screens/topics.tsx";
import { Empty } from "./ui/basics.tsx";
import { ErrorBoundary } from "./ui/boundary.tsx";
import { SCREENS, Shell } from "./ui/shell.tsx";

/** Pause before `/whoami` is asked again after a failure. */
const IDENTIFY_RETRY_MS = 3_000;

const help = signal(false);

function Screen() {
  const { path, params } = route.route.value;
  document.title = [visible(params["group"] ?? params["topic"] ?? ""), SCREENS.find(([one]) => one === path)?.[1], "event-hub"].filter(Boolean).join(" · ");
  switch (path) {
    case "/": return <Overview />;
    case "/topics": return <Topics />;
    case "/topic": return <TopicScreen key={params["topic"]} />;
    case "/event": return <EventScreen />;
    case "/find": return <Find />;
    case "/groups": return <Groups />;
    case "/group": return <GroupScreen key={`${params["topic"]} ${params["group"]}`} />;
    case "/letters": return <Letters />;
    case "/state": return <StateScreen />;
    case "/outboxes": return <Outboxes />;
    case "/push": return <Push />;
    case "/connections": return <Connections />;
    case "/hubs": return <Hubs />;
    case "/quotas": return <Quotas />;
    case "/audit": return <Audit />;
    default: return <Empty title="No such page"><p>The navigation has all pages.</p></Empty>;
  }
}

function App() {
  return <Shell help={help}><ErrorBoundary key={session.viewerChanges.value}><Screen /></ErrorBoundary></Shell>;
}

options.debounceRendering = inFrame;
// Before anything is requested: the token leaves the address.
route.start(session.fromFragment);
session.start();
theme.start();
clock.start();
windows.start();
live.start();
keys.start(SCREENS, () => {
  help.value = true;
});
// The subject and the rights of the token: read for each token, and again whenever everything is read again, because they may have changed.
effect(() => {
  if (session.token.value === undefined) return;
  generation.value;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOver = false;
  const ask = () => {
    identify().catch(() => {
      // Another token is asked for by the request itself.
      if (!isOver && session.asked.peek() === undefined) timer = setTimeout(ask, IDENTIFY_RETRY_MS);
    });
  };
  ask();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
});
const root = document.getElementById("app");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
