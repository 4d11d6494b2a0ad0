// The fields that tie a video to a race: its event, its distance, and when its first frame
// was seen by a clock on the wall. On two pages, with ids that begin alike.
import { field, type Schemas } from './api';

export type Race = Schemas['Race'];

// raceIn reads the fields: null when they are empty. What is there in part is an error.
export function raceIn(prefix: string): Race | null {
  const [event, distance, at] = ['event', 'distance', 'first-frame'].map((name) => field(prefix + name).value.trim()) as [string, string, string];
  if (!event && !at) return null;
  if (!event || !distance || !at) throw new Error('A race needs its event, its distance and the time of the first frame.');
  return { event: `${event}__${distance}`, firstFrameAt: new Date(at).toISOString() };
}

// showRace writes a race into the fields.
export function showRace(prefix: string, race: Race | undefined) {
  const [event = '', distance = 'Full'] = race?.event.split('__') ?? [];
  field(`${prefix}event`).value = event;
  field(`${prefix}distance`).value = distance;
  const at = race ? new Date(race.firstFrameAt) : null;
  field(`${prefix}first-frame`).value = at ? new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 23) : '';
}
