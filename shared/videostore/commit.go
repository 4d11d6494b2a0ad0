package videostore

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Commit is what the commit of a step writes, in one transaction.
type Commit struct {
	Output any                // JSON-encoded into the step row
	Plan   *video.Plan        // the first step's, else nil
	Part   *video.AudioPart   // the sound that the step made, else nil
	Video  func(*video.Video) // edits META; nil leaves it alone. May run several times
	// Files and Facts are what a step that runs once adds to META. The web role serves
	// the files by step and name. The facts are anything that encodes as a small JSON
	// object. Bounds: video.MaxFiles, video.MaxFacts (bytes).
	Files []video.File
	Facts any
	// Read is what was read of an upload that was still going on: package early.
	Read string
}

// changesVideo reports whether the commit changes META, so that the lists and the
// search must follow.
func (c Commit) changesVideo() bool {
	return c.Video != nil || c.Plan != nil || c.hasResults()
}

func (c Commit) hasResults() bool { return len(c.Files) > 0 || c.Facts != nil }

// results returns what the commit adds to META. An error when it is too large, or when the
// step may add nothing.
func (c Commit) results(key workflow.Key) (made video.Made, err error) {
	made = video.Made{Step: key.Step, Generation: key.Generation, Files: c.Files}
	if c.Facts != nil {
		made.Facts, err = json.Marshal(c.Facts)
	}
	if step := key.Declared(); step.Stage == workflow.OnRequest || step.Count != workflow.Once && step.Count != workflow.IfSound {
		err = errors.Join(err, errors.New("only a step that runs once leaves something with its video"))
	}
	if len(made.Files) > video.MaxFiles || len(made.Facts) > video.MaxFacts {
		err = errors.Join(err, fmt.Errorf("%d files and %d bytes of facts are more than %d and %d", len(made.Files), len(made.Facts), video.MaxFiles, video.MaxFacts))
	}
	if err != nil {
		return made, fmt.Errorf("what %s leaves: %w", key, err)
	}
	return made, nil
}

// edited is the video as the commit of a step leaves it.
func (c Commit) edited(v video.Video, key workflow.Key) (video.Video, error) {
	if c.Video != nil {
		c.Video(&v)
	}
	if c.hasResults() {
		made, err := c.results(key)
		if err != nil {
			return v, err
		}
		v.SetMade(made)
	}
	if c.Plan != nil {
		v.Chunks = len(c.Plan.Chunks)
	}
	v.UpdatedAt = now()
	return v, nil
}
