package scenes

import "context"

// plays has the program of every scene. What is said about it is in package scene.
var plays = map[string]func(context.Context, *Stage) error{
	"papers-scene":  papersScene,
	"stale-receipt": staleReceipt,
	"the-race":      theRace,
}

// children has the program of every actor that is a process of its own.
var children = map[string]func(context.Context, *Stage) error{
	actorC1: playC1,
}
