// Which scenes were played to their end in this browser.
const key = (scene: string) => `scene-played-${scene}`;

export function played(scene: string) {
  try {
    return localStorage.getItem(key(scene)) !== null;
  } catch {
    return false; // storage is off
  }
}

export function remember(scene: string) {
  try {
    localStorage.setItem(key(scene), 'yes');
  } catch (err) {
    console.info('played', err); // it is not remembered
  }
}
