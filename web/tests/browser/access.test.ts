// What axe-core finds on every screen, with and without data, in both colour schemes, on a phone and on a wide screen.
import assert from "node:assert/strict";
import { axe } from "./harness/axe.ts";
import { browserTest, type World } from "./harness/world.ts";
import { busyShop, SHOP_CONFIG } from "./harness/shop.ts";

const SCREENS = ["/", "/topics", "/groups", "/letters", "/state", "/outboxes", "/push", "/connections", "/hubs", "/quotas", "/audit", "/find?id=018f4e3a-1b2c-7d3e-8f40-112233445566", "/no-such-page"];
const FULL = [
  ...SCREENS,
  "/topic?topic=orders.created",
  "/topic?topic=orders.created&paused=1",
  "/topic?topic=orders.created&tab=state",
  "/topic?topic=orders.created&tab=groups",
  "/topic?topic=orders.created&tab=publish",
  "/event?topic=orders.created&seq=1",
  "/group?topic=orders.created&group=billing",
  "/state?topic=process.state&history=host:worker:1",
  "/state?topic=process.state&at=1",
];

const UNKNOWN = "018f4e3a-1b2c-7d3e-8f40-112233445566";
/** Links to what is not there: it never was, was deleted, or was cleaned away. */
const MISSING: readonly (readonly [screen: string, says: string | RegExp])[] = [
  ["/topic?topic=no.such.topic", /no\.such\.topic does not exist|No such topic/],
  ["/topic?topic=no.such.topic&tab=groups", /no\.such\.topic/],
  [`/event?topic=orders.created&id=${UNKNOWN}`, "The topic does not have it"],
  ["/event?topic=orders.created&seq=999999", "The topic does not have it"],
  ["/event?topic=no.such.topic&seq=1", /topic no\.such\.topic does not exist/],
  ["/group?topic=orders.created&group=nobody", /nobody/],
  ["/group?topic=no.such.topic&group=nobody", /no\.such\.topic/],
  [`/letters?letter=${UNKNOWN}&of=orders.created`, /has no dead letter|no such|does not/i],
  ["/letters?topic=orders.created&err=nothing", "None matches these filters."],
  [`/letters?job=${UNKNOWN}`, "No such replay"],
  ["/state?topic=no.such.topic", /no\.such\.topic/],
  [`/find?id=${UNKNOWN}`, "No topic has this id"],
  ["/find?trace=4bf92f3577b34da6a3ce929d0e0e4736", "No event with this trace"],
  ["/find?correlation=nothing", "No event with this correlation id"],
];

const LOOKS = [
  { theme: "light", width: 360, height: 740 },
  { theme: "light", width: 1440, height: 900 },
  { theme: "dark", width: 360, height: 740 },
  { theme: "dark", width: 1440, height: 900 },
] as const;

/** Each finding once, with where it was found. */
function none(found: readonly (readonly [screen: string, text: string])[]): void {
  const screens = new Map<string, string[]>();
  for (const [screen, text] of found) screens.set(text, [...(screens.get(text) ?? []), screen]);
  const told = [...screens].map(([text, where]) => `${text}\n    on ${where.join(", ")}`);
  if (told.length > 0) assert.fail(`${told.length} findings:\n${told.join("\n")}`);
}

async function everyScreen({ open }: World, screens: readonly string[], look: (typeof LOOKS)[number]): Promise<void> {
  const viewer = await open("/", look);
  const found: [string, string][] = [];
  for (const screen of screens) {
    await viewer.go(screen);
    await viewer.settled();
    for (const text of await axe(viewer)) found.push([screen, text]);
    const overflow = await viewer.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    if (overflow > 0) found.push([screen, `the page is ${overflow} px wider than the screen`]);
  }
  none(found);
}

for (const look of LOOKS) {
  browserTest(`axe finds nothing serious on empty screens, ${look.theme}, ${look.width} px`, (world) => everyScreen(world, SCREENS, look));
  browserTest(
    `axe finds nothing serious on full screens, ${look.theme}, ${look.width} px`,
    async (world) => {
      await busyShop(world.hub);
      await everyScreen(world, FULL, look);
    },
    { config: SHOP_CONFIG },
  );
}

for (const look of [LOOKS[0], LOOKS[3]]) {
  browserTest(
    `axe finds nothing serious on what is missing, ${look.theme}, ${look.width} px`,
    async ({ hub, open }) => {
      await busyShop(hub);
      const viewer = await open("/", look);
      const found: [string, string][] = [];
      for (const [screen, says] of MISSING) {
        await viewer.go(screen);
        await viewer.see(viewer.page.locator("main, dialog, .dock").getByText(says).filter({ visible: true }));
        await viewer.settled();
        for (const text of await axe(viewer)) found.push([screen, text]);
        await viewer.go("/no-such-page");
        await viewer.gone(viewer.page.getByRole("dialog"));
      }
      none(found);
    },
    { config: SHOP_CONFIG },
  );

  browserTest(
    `axe finds nothing serious on what a token may not see, ${look.theme}, ${look.width} px`,
    async ({ hub, open }) => {
      await busyShop(hub);
      const token = await hub.mint(["subscribe:stock.*"]);
      const viewer = await open("/", { ...look, token });
      const found: [string, string][] = [];
      for (const screen of FULL) {
        await viewer.go(screen);
        await viewer.settled();
        for (const text of await axe(viewer)) found.push([screen, text]);
      }
      // The screens that need a right say which.
      await viewer.go("/topic?topic=orders.created");
      await viewer.see(viewer.text(/it needs the scope subscribe:orders\.created/));
      await viewer.go("/event?topic=orders.created&seq=1");
      await viewer.see(viewer.text("the token does not allow subscribe on topic \"orders.created\""));
      await viewer.see(viewer.button("What your token allows"));
      none(found);
    },
    { config: SHOP_CONFIG },
  );

  browserTest(
    `axe finds nothing serious on screens that are opened while the hub is away, ${look.theme}, ${look.width} px`,
    async ({ hub, open }) => {
      await busyShop(hub);
      const viewer = await open("/", look);
      await viewer.settled();
      await hub.kill();
      await viewer.see(viewer.page.locator(".banner").filter({ hasText: "the hub does not answer" }));
      const found: [string, string][] = [];
      for (const screen of FULL) {
        await viewer.go(screen);
        await viewer.settled();
        for (const text of await axe(viewer)) found.push([screen, text]);
      }
      none(found);
    },
    { config: SHOP_CONFIG },
  );
}

for (const look of LOOKS) {
  browserTest(
    `axe finds nothing serious where requests fail and the hub is away, ${look.theme}, ${look.width} px`,
    async ({ hub, open }) => {
      await busyShop(hub);
      const viewer = await open("/", look);
      const found: [string, string][] = [];
      const lookAt = async (screen: string, what: string) => {
        for (const text of await axe(viewer)) found.push([`${screen}, ${what}`, text]);
      };
      // The second answer is a refusal, above what was there.
      let asked = 0;
      await viewer.page.route((url) => url.pathname === "/outbox", (route) => {
        asked += 1;
        return asked === 1 ? route.fallback() : route.fulfill({ status: 503, json: { code: "store_unavailable", error: "the store does not answer" } });
      });
      await viewer.go("/outboxes");
      await viewer.see(viewer.page.locator(".banner"));
      await lookAt("/outboxes", "with an error");
      await viewer.go("/groups");
      await viewer.settled();
      await hub.kill();
      await viewer.see(viewer.page.locator(".screen.old"));
      await lookAt("/groups", "greyed");
      await viewer.go("/");
      await viewer.see(viewer.page.getByRole("heading", { name: "Overview" }));
      await lookAt("/", "greyed");
      none(found);
    },
    { config: SHOP_CONFIG },
  );
}

for (const look of [LOOKS[0], LOOKS[3]]) {
  browserTest(
    `axe finds nothing serious in dialogs, ${look.theme}, ${look.width} px`,
    async ({ hub, open, viewer: stranger }) => {
      await busyShop(hub);
      const found: [string, string][] = [];
      const login = await stranger(look);
      await login.page.goto(hub.http);
      await login.see(login.dialog("Token"));
      for (const text of await axe(login)) found.push(["log in", text]);
      const viewer = await open("/", look);
      const { letters } = await hub.json<{ letters: { id: string }[] }>("/dlq?topic=orders.created");
      const dialogs: readonly (readonly [string, string | RegExp])[] = [
        ["/", "Help and shortcuts (?)"],
        ["/", "Your token"],
        ["/group?topic=orders.created&group=billing", /^Seek/],
        ["/topic?topic=orders.created", /^Delete/],
        ["/event?topic=orders.created&seq=1", "Publish again…"],
        ["/letters?topic=orders.created", /^Replay all/],
        [`/letters?topic=orders.created&letter=${letters[0]?.id ?? ""}&of=orders.created`, "Edit"],
      ];
      for (const [screen, name] of dialogs) {
        await viewer.go(screen);
        await viewer.button(name).click();
        await viewer.settled();
        await viewer.see(viewer.page.getByRole("dialog"));
        for (const text of await axe(viewer)) found.push([`${screen}, ${String(name)}`, text]);
        await viewer.page.keyboard.press("Escape");
        await viewer.gone(viewer.page.getByRole("dialog"));
      }
      none(found);
    },
    { config: SHOP_CONFIG },
  );
}
