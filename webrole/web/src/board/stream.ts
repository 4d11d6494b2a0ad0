// The stream of events, for as long as the page is open. EventSource comes back by
// itself after a broken connection, but not after an answer that is no stream.
import type { BoardEvent } from '../api';

const again = 3000;

export interface Listener {
  event(event: BoardEvent): void;
  down(): void; // the connection broke, it is being tried again
  refused(): Promise<boolean>; // not a stream; true: do not ask again
}

// follow looks while the page is visible: a hidden board costs nothing.
export function follow(url: string, listener: Listener) {
  let source: EventSource | undefined;
  let over = false;
  const open = () => {
    if (source || over || document.hidden) return;
    const mine = new EventSource(url);
    source = mine;
    mine.addEventListener('snapshot', (e: MessageEvent<string>) => listener.event(JSON.parse(e.data) as BoardEvent));
    mine.addEventListener('error', async () => {
      if (mine !== source) return;
      listener.down();
      if (mine.readyState !== EventSource.CLOSED) return;
      source = undefined;
      over = await listener.refused();
      setTimeout(open, again);
    });
  };
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      source?.close();
      source = undefined;
    } else {
      open();
    }
  });
  open();
}
