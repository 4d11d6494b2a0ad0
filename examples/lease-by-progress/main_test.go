package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// The work takes more than twice the visibility timeout, and a second slot is free.
func TestLongWorkRunsOnce(t *testing.T) {
	t.Parallel()
	var got, want strings.Builder
	if err := run(t.Context(), azuritetest.Account(t), &got); err != nil {
		t.Fatal(err)
	}
	for page := range 14 {
		fmt.Fprintln(&want, "page", page+1)
	}
	fmt.Fprintln(&want, "Emma is printed, in delivery 1\ndone")
	if got.String() != want.String() {
		t.Errorf("printed\n%s\nwant\n%s", &got, &want)
	}
}
