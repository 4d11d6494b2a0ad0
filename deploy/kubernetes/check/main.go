// Command check reads what `helm template` prints and refuses what a Kubernetes API
// server would: members that the types do not have, values of the wrong type, and pods
// that the "restricted" pod security standard does not admit. It knows Kubernetes' own
// kinds, those of the Prometheus operator, and those of the custom resource definitions
// in the files that are its arguments; of others it only says that it skipped them.
//
// It is a module of its own, so that nothing else depends on Kubernetes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	if err := check(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(in io.Reader, paths []string) error {
	definitions, err := readDefinitions(paths)
	if err != nil {
		return err
	}
	if err := monitoringv1.AddToScheme(scheme.Scheme); err != nil {
		return fmt.Errorf("prepare the Prometheus operator's types: %w", err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		return fmt.Errorf("prepare the pod security standard: %w", err)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	seen, bad := 0, []error(nil)
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the documents: %w", err)
		}
		object, kind, err := strict.Decode(text, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err):
			kind, known, err := definitions.fits(text)
			switch {
			case err != nil:
				bad = append(bad, fmt.Errorf("%v: %w", kind, err))
			case known:
				fmt.Printf("fits its definition: %v\n", kind)
			default:
				fmt.Printf("skipped, nothing declares it: %v\n", kind)
			}
			continue
		case err != nil:
			bad = append(bad, fmt.Errorf("%v: %w", kind, err))
			continue
		}
		seen++
		fmt.Printf("fits: %v\n", kind)
		deployment, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pod := deployment.Spec.Template
		for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				bad = append(bad, fmt.Errorf("%s is not restricted: %s: %s", deployment.Name, result.ForbiddenReason, result.ForbiddenDetail))
			}
		}
	}
	if seen == 0 {
		bad = append(bad, errors.New("there is nothing to check"))
	}
	return errors.Join(bad...)
}
