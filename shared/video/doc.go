// Package video holds the words of the domain: what a video is, the states it
// goes through, how it is cut into chunks and what a step produced. It uses the
// standard library only, and every other package may import it.
//
// Reading order: 1 webrole/main.go, 2 this package, 3 shared/workitem.
//
// Next: shared/workitem, how a request for work travels on a queue.
package video
