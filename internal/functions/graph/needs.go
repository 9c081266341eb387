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

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// impossible says why nothing can be of a name that was computed.
func impossible(n plan.Need) string {
	if n.Namespace != "" && len(validation.IsDNS1123Label(n.Namespace)) > 0 {
		return fmt.Sprintf("an externalRef to %s names a namespace that can't be: %.80q", n.Kind.Kind, n.Namespace)
	}
	if n.Several {
		return "" // its labels have been checked where they were computed
	}
	if len(content.IsPathSegmentName(n.Name)) > 0 || strings.ContainsRune(n.Name, ' ') {
		return fmt.Sprintf("an externalRef to %s has a name that can't be: %.80q", n.Kind.Kind, n.Name)
	}
	return ""
}

// needKey begins the keys of what references name, needsKey those of what they select.
const (
	needKey  = "externalRef "
	needsKey = "externalRefs "
)

func keyOfNeed(n plan.Need) string {
	apiVersion, kind := n.Kind.ToAPIVersionAndKind()
	if n.Several {
		return needsKey + strings.Join([]string{apiVersion, kind, n.Namespace, n.Selector}, " ")
	}
	return needKey + strings.Join([]string{apiVersion, kind, n.Namespace, n.Name}, " ")
}

func needOf(key string) (plan.Need, bool) {
	rest, several := strings.CutPrefix(key, needsKey)
	if !several {
		var one bool
		if rest, one = strings.CutPrefix(key, needKey); !one {
			return plan.Need{}, false // another step's
		}
	}
	parts := strings.SplitN(rest, " ", 4) // a selector may have blanks in it
	if len(parts) != 4 {
		return plan.Need{}, false
	}
	need := plan.Need{Kind: schema.FromAPIVersionAndKind(parts[0], parts[1]), Namespace: parts[2], Several: several}
	if several {
		need.Selector = parts[3]
	} else {
		need.Name = parts[3]
	}
	return need, true
}

// selectorOf is what an engine is asked for. It knows labels with one value each: what a
// selector says beyond that is left to lookOf.
func selectorOf(n plan.Need) call.Selector {
	apiVersion, kind := n.Kind.ToAPIVersionAndKind()
	out := call.Selector{APIVersion: apiVersion, Kind: kind, Namespace: n.Namespace, Name: n.Name}
	if !n.Several {
		return out
	}
	out.Labels = map[string]string{}
	selector, err := labels.Parse(n.Selector)
	if err != nil {
		return out // it was written by the same library
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		switch values := r.Values().List(); r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if len(values) == 1 {
				out.Labels[r.Key()] = values[0]
			}
		default: // nothing that an engine could be asked for
		}
	}
	return out
}

// lookOf is what came of asking for it.
func lookOf(n plan.Need, objects []map[string]any) plan.Lookup {
	look := plan.Lookup{}
	if !n.Several {
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
