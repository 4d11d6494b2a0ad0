// Which scenes were played to their end in this browser.
const key = 'scenes-played';

export function played(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(key) ?? '[]');
    return Array.isArray(kept) ? kept.map(String) : [];
  } catch {
    return []; // storage is off, or holds something else
  }
}

export function remember(scene: string) {
  try {
    localStorage.setItem(key, JSON.stringify([...new Set([...played(), scene])]));
  } catch (err) {
    console.info('played', err); // it is not remembered
  }
}
