// Package media decides how a video is cut, has it encoded, and checks what
// came out before it is published.
//
// It works on an address to read and a local directory to write; storing the
// files is the steps' business. Every function may be repeated: the same input
// gives the same bytes (Q8), and nothing is trusted because ffmpeg ended well:
// boxes are read and frames are counted.
//
// Next: shared/workflow, where the steps are declared.
package media
