//go:build linux || darwin

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/workflow"
)

// A source without an index is copied before it is planned. A worker whose disk has room
// for its usual work, but not for the copy, leaves the item to one that has it.
func TestCopyWithoutRoomIsMadeByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := clip(t, 4, "-vf", "scale=1280:720,noise=alls=100:allf=t", "-qp", "0", "-f", "matroska", "-live", "1")
	source, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if source.Size() < 128<<20 {
		t.Fatalf("the clip has %d bytes: it must be larger than what other tests write meanwhile", source.Size())
	}
	id := s.upload(t, path, 1)[0]
	var disk unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &disk); err != nil {
		t.Fatal(err)
	}
	free := int64(disk.Bavail) * int64(disk.Bsize)
	// The copy is allowed 330 MiB for 225: 165 are missing, and 165 are there for others.
	s.start(t, "tight", nil, map[string]string{"WORKERROLE_SCRATCH_FREE": strconv.FormatInt((free-(source.Size()+source.Size()/8+64<<20)/2)>>20, 10)})
	azuritetest.Eventually(t, time.Minute, func() error {
		w, err := s.row(t, "tight")
		if err == nil && w.Troubled == 0 {
			err = fmt.Errorf("%+v", w)
		}
		return err
	})
	probe := func() (engine.Run, error) {
		view, err := s.videos.View(t.Context(), id)
		if err != nil {
			return engine.Run{}, err
		}
		for _, step := range view.Runs {
			if step.Key.Step == workflow.StepProbe {
				return step, nil
			}
		}
		return engine.Run{}, errors.New("there is no probe")
	}
	if step, err := probe(); err != nil || step.State == engine.RunDone || step.Attempts == 0 {
		t.Errorf("the probe is %+v, %v: want it begun and left", step, err)
	}
	s.start(t, "roomy", nil, nil)
	azuritetest.Eventually(t, time.Minute, func() error {
		step, err := probe()
		if err == nil && (step.State != engine.RunDone || step.Worker != "roomy") {
			err = fmt.Errorf("the probe is %+v", step)
		}
		return err
	})
	if w, err := s.row(t, "tight"); err != nil || w.Failed != 0 {
		t.Errorf("the worker without room: %+v, %v", w, err)
	}
	s.wantNoPoison(t)
}
