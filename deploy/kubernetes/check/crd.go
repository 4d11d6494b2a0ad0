package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// schemas are those of the kinds that custom resource definitions declare.
type schemas map[schema.GroupVersionKind]*spec.Schema

// readDefinitions reads files with one custom resource definition each.
func readDefinitions(paths []string) (schemas, error) {
	found := schemas{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a definition: %w", err)
		}
		var d struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema json.RawMessage }
				}
			}
		}
		if err := yaml.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("read the definition %s: %w", path, err)
		}
		for _, v := range d.Spec.Versions {
			s := &spec.Schema{}
			if err := json.Unmarshal(v.Schema.OpenAPIV3Schema, s); err != nil {
				return nil, fmt.Errorf("read the schema of %s: %w", path, err)
			}
			metadata := s.Properties["metadata"]
			close(s)
			s.Properties["metadata"] = metadata // belongs to Kubernetes
			found[schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}] = s
		}
	}
	return found, nil
}

// close makes a schema refuse members that it does not name, as a server does that is
// asked to be strict.
func close(s *spec.Schema) {
	if preserve, ok := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); ok && preserve {
		return
	}
	if len(s.Properties) > 0 && s.AdditionalProperties == nil {
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: false}
	}
	for name, property := range s.Properties {
		close(&property)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		close(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		close(s.AdditionalProperties.Schema)
	}
}

// fits checks an object in YAML. known is false when no definition declares its kind.
func (s schemas) fits(text []byte) (kind schema.GroupVersionKind, known bool, err error) {
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return kind, false, fmt.Errorf("read an object: %w", err)
	}
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	kind = schema.FromAPIVersionAndKind(version, name)
	definition := s[kind]
	if definition == nil {
		return kind, false, nil
	}
	result := validate.NewSchemaValidator(definition, nil, "", strfmt.Default).Validate(object)
	return kind, true, errors.Join(result.Errors...)
}
