package crd

import (
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/graph"
)

type props = map[string]apiextensionsv1.JSONSchemaProps

func text(description string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "string", Description: description}
}

func list(item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

// status adds the fields that the engine writes to the author's. Of those that
// the dialect doesn't know, an author's field of the same name wins.
func status(author *apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	out := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props{}}
	if author != nil {
		author.DeepCopyInto(&out)
		if out.Properties == nil {
			out.Properties = props{}
		}
	}
	fields := props{graph.WaitingField: waiting()}
	maps.Copy(fields, out.Properties)
	fields[graph.StateField] = text("ACTIVE, IN_PROGRESS, DELETING or ERROR")
	fields[graph.ConditionsField] = conditions()
	out.Properties = fields
	return out
}

func conditions() apiextensionsv1.JSONSchemaProps {
	return list(apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props{
		"type":               text(""),
		"status":             text(""),
		"reason":             text(""),
		"message":            text(""),
		"lastTransitionTime": text(""),
		"observedGeneration": {Type: "integer"},
	}})
}

func waiting() apiextensionsv1.JSONSchemaProps {
	s := list(apiextensionsv1.JSONSchemaProps{Type: "object", Properties: props{
		"node":     text("The resource that waits"),
		"reason":   text(""),
		"on":       text("What it waits for, such as vpc.status.vpcID"),
		"since":    text("When it was first found missing"),
		"attempts": {Type: "integer", Description: "How often it has been tried"},
	}})
	s.Description = "What the resources of this instance wait for"
	return s
}

// Waits says whether the engine may write what it waits for into the status of
// the graph's instances.
func Waits(g *graph.Graph) bool {
	if g.Status == nil {
		return true
	}
	_, taken := g.Status.Properties[graph.WaitingField]
	return !taken
}
