import type { Platform } from "./platform.ts";

/** The longest time that a timer of Node or of a browser keeps; beyond it they run at once. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** The clocks of a computer drift apart by less. */
const JUMP = 1_000;

/** Something that runs once its time has come. Setting it again replaces the time; `Infinity` puts it off for good. */
export interface Alarm {
  at: number;
  set(at: number): void;
}

/** The time of a client, and its only timer. */
export interface Clock {
  /** Milliseconds since 1970, as far as the clock of the day was right when the client was made. */
  now(): number;
  alarm(run: () => void): Alarm;
  remove(alarm: Alarm): void;
  /** Stops the timer. */
  stop(): void;
}

/**
 * Steady clocks stand still while some computers sleep, and clocks of the day are set back. This one does neither: it is the
 * steady clock, put forward by what the clock of the day has gained on it. `onJump` hears of that.
 */
export function createClock(platform: Platform, onJump: () => void): Clock {
  const alarms = new Map<Alarm, () => void>();
  let drift = platform.wall() - platform.steady();
  let ahead = drift;
  let timer: unknown;
  let armed = Infinity;

  const now = (): number => {
    const steady = platform.steady();
    const seen = platform.wall() - steady - drift;
    if (Math.abs(seen) > JUMP) {
      drift += seen;
      if (seen > 0) {
        ahead += seen;
        platform.defer(() => {
          // The timer was set for a time that is now nearer, or over.
          arm(earliest());
          onJump();
        });
      }
    }
    return steady + ahead;
  };

  const arm = (at: number): void => {
    if (timer !== undefined) platform.clearTimer(timer);
    armed = at;
    timer = at === Infinity ? undefined : platform.setTimer(fire, Math.min(Math.max(Math.ceil(at - now()), 0), LONGEST_TIMER));
  };

  const fire = (): void => {
    timer = undefined;
    const time = now();
    for (const [alarm, run] of alarms) {
      if (alarm.at > time) continue;
      alarm.at = Infinity;
      run();
    }
    // What ran may have set alarms; all of them are looked at here.
    arm(earliest());
  };

  const earliest = (): number => {
    let next = Infinity;
    for (const alarm of alarms.keys()) next = Math.min(next, alarm.at);
    return next;
  };

  return {
    now,
    alarm(run) {
      const alarm: Alarm = {
        at: Infinity,
        set(at) {
          alarm.at = at;
          // A later time leaves the timer: it finds out when it fires. But one for nothing would keep a program alive.
          if (!alarms.has(alarm)) return;
          if (at < armed) arm(at);
          else if (at === Infinity && earliest() === Infinity) arm(Infinity);
        },
      };
      alarms.set(alarm, run);
      return alarm;
    },
    remove(alarm) {
      alarms.delete(alarm);
    },
    stop() {
      alarms.clear();
      arm(Infinity);
    },
  };
}
