package main

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestThePoisonedLetterArrivesWhenItIsRedriven(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), azuritetest.Account(t), &out); err != nil {
		t.Fatal(err)
	}
	want := "retried there is no Elm Street\npoisoned there is no Elm Street\ndone <nil>\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}
