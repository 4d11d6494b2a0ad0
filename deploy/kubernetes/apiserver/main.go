// Command apiserver is the API server of Kubernetes as it is published, for
// scripts/test-apiserver: a strict dry run against it says what a cluster would.
//
// It is a module of its own, so that nothing else depends on Kubernetes.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
