package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestThePoisonedLetterArrivesWhenItIsRedriven(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, azuritetest.Account(t), &out); err != nil {
		t.Fatal(err)
	}
	want := "retried there is no Elm Street\npoisoned there is no Elm Street\ndone <nil>\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}
