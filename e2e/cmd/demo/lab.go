package main

import (
	"fmt"

	"github.com/cutroom/cutroom/e2e/lab"
)

func init() {
	startStack = lab.Start
	invite = func(base string) {
		fmt.Printf("break it:   %s/board#lab kills workers and storage, everything heals\n", base)
	}
}
