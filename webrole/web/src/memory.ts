// What this browser remembers of uploads, by file. It is in IndexedDB, because what
// localStorage was told in its last seconds is lost when the browser is killed: it is
// written some seconds later.

import { sleep } from './api';

// Memory of a file's upload: the key of the request that announced it, and the video
// once its id is known. The key is random, because anyone who can guess it is answered
// with the video.
export interface Memory { key?: string; id?: string }

const table = 'uploads';

// A database that is blocked answers nothing, not even an error: it is done without.
const longestWait = 2000; // ms

async function late(): Promise<never> {
  await sleep(longestWait);
  throw new Error('the database does not answer');
}

const result = <T>(request: IDBRequest<T>) => new Promise<T>((done, failed) => {
  request.onsuccess = () => done(request.result);
  request.onerror = () => failed(request.error);
});

let opened: Promise<IDBDatabase> | null = null;

function open(): Promise<IDBDatabase> {
  if (opened) return opened;
  const request = indexedDB.open('cutroom', 1);
  request.onupgradeneeded = () => { request.result.createObjectStore(table); };
  opened = Promise.race([result(request), late()]);
  return opened;
}

export async function remembered(file: string): Promise<Memory | null> {
  try {
    return await result<Memory | undefined>((await open()).transaction(table).objectStore(table).get(file)) ?? null;
  } catch {
    return null; // storage is off
  }
}

// remember is done when what it was told is on the disk. null forgets the file.
export async function remember(file: string, what: Memory | null) {
  try {
    const writing = (await open()).transaction(table, 'readwrite', { durability: 'strict' });
    if (what) writing.objectStore(table).put(what, file);
    else writing.objectStore(table).delete(file);
    await new Promise<void>((done, failed) => {
      writing.oncomplete = () => done();
      writing.onabort = () => failed(writing.error);
    });
  } catch {
    // Then a broken upload begins anew.
  }
}

// unfinished are the files whose upload this browser has begun.
export async function unfinished(): Promise<string[]> {
  try {
    return (await result((await open()).transaction(table).objectStore(table).getAllKeys())).map(String);
  } catch {
    return [];
  }
}
