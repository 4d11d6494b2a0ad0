// What we use of the libraries in static/vendor.

declare module '*/vendor/md5.min.js' {
  export const md5: { base64(data: ArrayBuffer): string };
}

declare module '*/vendor/idiomorph.js' {
  export { Idiomorph } from 'idiomorph';
}
