package scenes

// programs has the program of every scene. Its story is in package scene.
var programs = map[string]func(*Stage){
	"papers-scene":          papersScene,
	"killed-in-the-middle":  killedInTheMiddle,
	"stale-receipt":         staleReceipt,
	"fixed-or-renewed":      fixedOrRenewed,
	"late-deletes":          lateDeletes,
	"bulk-and-critical":     bulkAndCritical,
	"burst":                 burst,
	"poison-and-redrive":    poisonAndRedrive,
	"too-large":             tooLarge,
	"queue-vocabulary":      queueVocabulary,
	"corrupted-and-split":   corruptedAndSplit,
	"lost-replies":          lostReplies,
	"one-error-three-names": oneErrorThreeNames,
	"retries":               retries,
	"keys-are-text":         keysAreText,
	"query-classes":         queryClasses,
	"three-workers":         threeWorkers,
	"partition-splits":      partitionSplits,
	"hot-keys":              hotKeys,
	"choosing-a-key":        choosingAKey,
	"index-follows":         indexFollows,
	"a-film":                aFilm,
	"the-race":              theRace,
	"while-it-uploads":      whileItUploads,
}

// children has the program of every actor that is a process of its own.
var children = map[string]func(*Stage){
	actorC1:      playC1,
	actorEncoder: playEncoder,
}
