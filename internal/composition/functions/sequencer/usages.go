package sequencer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// The API versions of usages.
const (
	versionV1 = "apiextensions.crossplane.io/v1beta1"
	versionV2 = "protection.crossplane.io/v1beta1"
)

// addUsages adds a usage for each existing resource of a sequence by each one of the entry after it.
func (s *sequencing) addUsages(in *input, sequence []string, usages map[string]*fnv1.Resource) error {
	for i := 1; i < len(sequence); i++ {
		before := s.matching(sequence[i-1], s.desired)
		for _, by := range s.matching(sequence[i], s.observed) {
			user, err := s.object(by)
			if err != nil {
				return err
			}
			if isUsage(user, in.UsageVersion) {
				continue
			}
			for _, of := range before {
				if _, exists := s.observed[of]; !exists {
					continue
				}
				used, err := s.object(of)
				if err != nil {
					return err
				}
				usage, err := structs.ToStruct(usageOf(used, user, in))
				if err != nil {
					return fmt.Errorf("sequence: cannot protect %s: %w", of, err)
				}
				usages[by+"-"+of+"-usage"] = &fnv1.Resource{Resource: usage, Ready: fnv1.Ready_READY_TRUE}
			}
		}
	}
	return nil
}

func (s *sequencing) object(name string) (*unstructured.Unstructured, error) {
	o, err := structs.ToObject(s.observed[name].GetResource())
	if err != nil {
		return nil, fmt.Errorf("sequence: observed resource %q: %w", name, err)
	}
	return &unstructured.Unstructured{Object: o}, nil
}

func isUsage(o *unstructured.Unstructured, version string) bool {
	if version == usageV1 {
		return o.GetAPIVersion() == versionV1 && o.GetKind() == "Usage"
	}
	return o.GetAPIVersion() == versionV2 && (o.GetKind() == "Usage" || o.GetKind() == "ClusterUsage")
}

func usageOf(of, by *unstructured.Unstructured, in *input) map[string]any {
	reference := func(o *unstructured.Unstructured) map[string]any {
		return map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "resourceRef": map[string]any{"name": o.GetName()}}
	}
	metadata := map[string]any{"name": usageName(strings.ToLower(strings.Join([]string{by.GetKind(), by.GetName(), of.GetKind(), of.GetName()}, "-")))}
	apiVersion, kind := versionV1, "Usage"
	if in.UsageVersion != usageV1 {
		apiVersion, kind = versionV2, "ClusterUsage"
		if of.GetNamespace() != "" {
			kind = "Usage"
			metadata["namespace"] = of.GetNamespace()
		}
	}
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": metadata,
		"spec": map[string]any{
			"of": reference(of), "by": reference(by), "reason": "dependency",
			"replayDeletion": in.ReplayDeletion == nil || *in.ReplayDeletion,
		},
	}
}

// usageName is the name that the original function gives to a usage, so that existing ones stay.
func usageName(name string) string {
	const maxName = 63
	sum := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(sum[:])[:6] + "-dependency"
	if len(name)+1+len(suffix) > maxName {
		name = strings.TrimSuffix(name[:maxName-len(suffix)-1], "-")
	}
	return name + "-" + suffix
}
