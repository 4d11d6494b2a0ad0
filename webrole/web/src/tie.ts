// The fields that tie a video to a race: its event, its distance, and when its first frame
// was seen by a clock on the wall. On two pages, with ids that begin alike.
import { field, type Schemas, type Video } from './api';

type Race = Schemas['Race'];

// setUp returns what a form does with the fields whose ids begin with the prefix.
export function setUp(prefix: string) {
  let shown: Race | null = null;

  // read returns null when the fields are empty. What is there in part is an error.
  function read(): Race | null {
    const [event, distance, at] = ['event', 'distance', 'first-frame'].map((name) => field(prefix + name).value.trim()) as [string, string, string];
    if (!event && !at) return null;
    if (!event || !distance || !at) throw new Error('A race needs its event, its distance and the time of the first frame.');
    return { event: `${event}__${distance}`, firstFrameAt: new Date(at).toISOString() };
  }

  // show writes the race of a video into the fields.
  function show({ race }: Video) {
    const [event = '', distance = 'Full'] = race?.event.split('__') ?? [];
    field(`${prefix}event`).value = event;
    field(`${prefix}distance`).value = distance;
    const at = race ? new Date(race.firstFrameAt) : null;
    field(`${prefix}first-frame`).value = at ? new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 23) : '';
    shown = read();
  }

  // changed is what a request says of the race: nothing if it is as it was shown.
  function changed() {
    const race = read();
    return JSON.stringify(race) === JSON.stringify(shown) ? {} : { race: race ?? { event: '' } };
  }

  return { read, show, changed };
}
