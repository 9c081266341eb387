package graph

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// needProblem is for computed names; "" if the externalRef is valid.
func needProblem(n plan.Need) string {
	if n.Namespace != "" && len(validation.IsDNS1123Label(n.Namespace)) > 0 {
		return fmt.Sprintf("an externalRef to %s has an invalid namespace: %.80q", n.Kind.Kind, n.Namespace)
	}
	if n.Multiple {
		return "" // its selector was validated when it was computed
	}
	if len(content.IsPathSegmentName(n.Name)) > 0 || strings.ContainsRune(n.Name, ' ') {
		return fmt.Sprintf("an externalRef to %s has an invalid name: %.80q", n.Kind.Kind, n.Name)
	}
	return ""
}

// singleKeyPrefix begins the keys of externalRefs with a name, selectorKeyPrefix the keys of externalRefs with a
// selector.
const (
	singleKeyPrefix   = "externalRef "
	selectorKeyPrefix = "externalRefs "
)

func keyOfNeed(n plan.Need) string {
	apiVersion, kind := n.Kind.ToAPIVersionAndKind()
	if n.Multiple {
		return selectorKeyPrefix + strings.Join([]string{apiVersion, kind, n.Namespace, n.Selector}, " ")
	}
	return singleKeyPrefix + strings.Join([]string{apiVersion, kind, n.Namespace, n.Name}, " ")
}

func needOf(key string) (plan.Need, bool) {
	rest, several := strings.CutPrefix(key, selectorKeyPrefix)
	if !several {
		var one bool
		if rest, one = strings.CutPrefix(key, singleKeyPrefix); !one {
			return plan.Need{}, false // not a key of this function
		}
	}
	parts := strings.SplitN(rest, " ", 4) // a selector may contain blanks
	if len(parts) != 4 {
		return plan.Need{}, false
	}
	need := plan.Need{Kind: schema.FromAPIVersionAndKind(parts[0], parts[1]), Namespace: parts[2], Multiple: several}
	if several {
		need.Selector = parts[3]
	} else {
		need.Name = parts[3]
	}
	return need, true
}

// selectorOf is the requirement for an externalRef. The protocol only has labels with one
// value each; lookupOf applies the rest of the selector.
func selectorOf(n plan.Need) call.ResourceSelector {
	apiVersion, kind := n.Kind.ToAPIVersionAndKind()
	out := call.ResourceSelector{APIVersion: apiVersion, Kind: kind, Namespace: n.Namespace, Name: n.Name}
	if !n.Multiple {
		return out
	}
	out.Labels = map[string]string{}
	selector, err := labels.Parse(n.Selector)
	if err != nil {
		return out // impossible: the same library formatted it
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch values := r.Values().List(); r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if len(values) == 1 {
				out.Labels[r.Key()] = values[0]
			}
		default: // not supported by the protocol
		}
	}
	return out
}

// lookupOf returns only objects that match the complete selector.
func lookupOf(n plan.Need, objects []map[string]any) plan.Lookup {
	look := plan.Lookup{}
	if !n.Multiple {
		if len(objects) > 0 {
			look.Object = &unstructured.Unstructured{Object: objects[0]}
		}
		return look
	}
	selector, err := labels.Parse(n.Selector)
	for _, o := range objects {
		found := &unstructured.Unstructured{Object: o}
		if err == nil && selector.Matches(labels.Set(found.GetLabels())) {
			look.Objects = append(look.Objects, found)
		}
	}
	return look
}
