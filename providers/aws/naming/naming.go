// Package naming knows the Kubernetes kinds of AWS's resource types: AWS::EC2::VPC is served as kind VPC of the group
// ec2.aws.espalier.dev, and cluster-scoped as kind ClusterVPC.
//
// Pure: it decides from values alone.
package naming

import (
	"fmt"
	"strings"

	"github.com/gobuffalo/flect"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the provider itself, and the end of the groups of resource types.
	Group = "aws.espalier.dev"
	// Version is the version of all kinds.
	Version = "v1alpha1"

	clusterPrefix = "Cluster"
	listSuffix    = "List"
	// maxName is how long Kubernetes allows kinds to be.
	maxName = 63
)

// Kind is the kind of a resource type in one of the two scopes.
type Kind struct {
	// Type is the resource type, such as AWS::EC2::VPC.
	Type          string
	ClusterScoped bool
	Group         string
	Kind          string
	ListKind      string
	Plural        string
	Singular      string
}

// Of returns the kind of a resource type.
func Of(typeName string, clusterScoped bool) (Kind, error) {
	parts := strings.Split(typeName, "::")
	if len(parts) != 3 || parts[0] != "AWS" || !isName(parts[1]) || !isName(parts[2]) {
		return Kind{}, fmt.Errorf("resource type %q: want a name such as AWS::EC2::VPC", typeName)
	}
	kind := parts[2]
	if clusterScoped {
		kind = clusterPrefix + kind
	}
	singular := strings.ToLower(kind)
	return Kind{
		Type: typeName, ClusterScoped: clusterScoped, Group: strings.ToLower(parts[1]) + "." + Group,
		Kind: kind, ListKind: kind[:min(len(kind), maxName-len(listSuffix))] + listSuffix, Plural: flect.Pluralize(singular), Singular: singular,
	}, nil
}

// GroupVersionKind returns the kind with its group and version.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: Version, Kind: k.Kind}
}

// CRDName returns the name of the kind's CustomResourceDefinition.
func (k Kind) CRDName() string { return k.Plural + "." + k.Group }

// Find returns which of the named types has a kind. A kind of both readings, such as the cluster-scoped
// Endpoint and a namespaced ClusterEndpoint, does not exist: see Check.
func Find(names []string, kind schema.GroupKind) (found Kind, ok bool) {
	service, isOurs := strings.CutSuffix(kind.Group, "."+Group)
	if !isOurs {
		return Kind{}, false
	}
	for _, name := range names {
		rest, _ := strings.CutPrefix(name, "AWS::")
		typeService, typeKind, _ := strings.Cut(rest, "::")
		if len(typeService) != len(service) || strings.ToLower(typeService) != service {
			continue
		}
		if clusterScoped := kind.Kind == clusterPrefix+typeKind; clusterScoped || kind.Kind == typeKind {
			found, err := Of(name, clusterScoped)
			return found, err == nil
		}
	}
	return Kind{}, false
}

// Check returns an error if two of the named types, in any scope, would share a kind, a list kind, or a plural.
func Check(names []string) error {
	used := map[string]string{}
	for _, name := range names {
		for _, clusterScoped := range []bool{false, true} {
			k, err := Of(name, clusterScoped)
			if err != nil {
				return err
			}
			for _, word := range []string{
				"kind " + strings.ToLower(k.Kind), "kind " + strings.ToLower(k.ListKind), "resource " + k.Plural,
			} {
				key := k.Group + " " + word
				if other, isUsed := used[key]; isUsed {
					return fmt.Errorf("the resource types %s and %s have the same %s in the group %s", other, name, word, k.Group)
				}
				used[key] = name
			}
		}
	}
	return nil
}

func isName(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return s != ""
}
