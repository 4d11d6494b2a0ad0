// The storyboard of a video: a picture of many small ones, and a WebVTT file that says
// where in it each moment is ("board.jpg#xywh=160,90,160,90").

export interface Tile { from: number; to: number; url: string; x: number; y: number; width: number; height: number }

const boards = new Map<string, Promise<Tile[]>>();

// tileAt is the tile of a moment, from a storyboard that is read once.
export async function tileAt(url: string | undefined, second: number) {
  if (!url) return undefined;
  const board = boards.get(url) ?? read(url);
  boards.set(url, board);
  board.catch(() => boards.delete(url)); // it is asked for again
  return (await board).find((tile) => second >= tile.from && second < tile.to);
}

async function read(url: string): Promise<Tile[]> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return (await answer.text()).split(/\n\n+/).flatMap((cue): Tile[] => {
    const times = /([\d:.]+) --> ([\d:.]+)/.exec(cue);
    const place = /^(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)$/m.exec(cue);
    if (!times || !place) return [];
    const [x = 0, y = 0, width = 0, height = 0] = place.slice(2).map(Number);
    return [{ from: seconds(times[1] ?? ''), to: seconds(times[2] ?? ''), url: new URL(place[1] ?? '', answer.url).href, x, y, width, height }];
  });
}

const seconds = (clock: string) => clock.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);

// paint shows a tile in a box of its size.
export function paint({ style }: HTMLElement, tile: Tile) {
  style.width = `${tile.width}px`;
  style.height = `${tile.height}px`;
  style.backgroundImage = `url(${JSON.stringify(tile.url)})`;
  style.backgroundPosition = `-${tile.x}px -${tile.y}px`;
}
