package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/examples/core/coretest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

func TestMain(m *testing.M) { coretest.Main(m, product) }

func TestDeclaration(t *testing.T) {
	t.Parallel()
	if err := enginetest.Check(core.Open(azuritetest.Account(t), product).Declaration()); err != nil {
		t.Error(err)
	}
}

func TestFilesOfAnyKindAreDigested(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.Start(t, azuritetest.Account(t), product)
	long := bytes.Repeat([]byte("twelve bytes"), 400_000) // in two parts
	var ids []engine.ID
	for _, c := range []struct {
		content string
		lines   int64
	}{{"a", 1}, {"a\n", 1}, {"a\n\nb", 3}, {"\x00\xff", 1}, {string(long), 1}} {
		now := s.Ended(s.Upload("", []byte(c.content)).ID)
		want := Facts{fmt.Sprintf("%x", sha256.Sum256([]byte(c.content))), int64(len(c.content)), c.lines}
		var got Facts
		if err := json.Unmarshal(now.Facts["digest"], &got); err != nil || now.State != engine.Ready || got != want {
			t.Errorf("%.10q: %+v, want %+v: %v", c.content, now, want, err)
		}
		ids = append(ids, now.ID)
	}
	s.Delete(ids...)
}
