// What we use of the libraries in static/vendor, which come without types.

declare module '*/vendor/md5.min.js' {
  export const md5: { base64(data: ArrayBuffer): string };
}
