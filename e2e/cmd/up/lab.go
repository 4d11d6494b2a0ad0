package main

import "github.com/cutroom/cutroom/e2e/lab"

func init() { startStack = lab.Start }
