package xrd

import (
	"strconv"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

type fields = map[string]extv1.JSONSchemaProps

func text() extv1.JSONSchemaProps { return extv1.JSONSchemaProps{Type: "string"} }

func moment() extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{Type: "string", Format: "date-time"}
}

func oneOf(values ...string) extv1.JSONSchemaProps {
	out := text()
	for _, v := range values {
		out.Enum = append(out.Enum, quoted(v))
	}
	return out
}

func quoted(value string) extv1.JSON { return extv1.JSON{Raw: []byte(strconv.Quote(value))} }

// texts is an object whose fields are all strings, and all required.
func texts(names ...string) extv1.JSONSchemaProps {
	out := extv1.JSONSchemaProps{Type: "object", Required: names, Properties: fields{}}
	for _, name := range names {
		out.Properties[name] = text()
	}
	return out
}

func list(kind string, item extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{Type: "array", XListType: &kind, Items: &extv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func selector() extv1.JSONSchemaProps {
	label := text()
	return extv1.JSONSchemaProps{Type: "object", Required: []string{"matchLabels"}, Properties: fields{
		"matchLabels": {Type: "object", AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Allows: true, Schema: &label}},
	}}
}

// choosing are the fields that say by which composition an object is composed.
func choosing() fields {
	return fields{
		"compositionRef":              texts("name"),
		"compositionSelector":         selector(),
		"compositionRevisionRef":      texts("name"),
		"compositionRevisionSelector": selector(),
		"compositionUpdatePolicy":     oneOf(string(v1.UpdateAutomatic), string(v1.UpdateManual)),
	}
}

// compositeSpec are the machinery's fields in the spec of a composite.
func compositeSpec(scope v1.Scope, policy *v1.UpdatePolicy) fields {
	out := choosing()
	if policy != nil {
		follow := out["compositionUpdatePolicy"]
		follow.Default = new(quoted(string(*policy)))
		out["compositionUpdatePolicy"] = follow
	}
	out["resourceRefs"] = list("atomic", composed(scope))
	if scope != v1.LegacyClusterScope {
		return fields{"crossplane": {Type: "object", Description: "How the object is composed", Properties: out}}
	}
	out["claimRef"] = texts("apiVersion", "kind", "namespace", "name")
	out["writeConnectionSecretToRef"] = texts("name", "namespace")
	return out
}

// composed refers to a composed object. One of a namespaced composite is in the same
// namespace.
func composed(scope v1.Scope) extv1.JSONSchemaProps {
	out := texts("apiVersion", "kind")
	out.Properties["name"], out.Properties["resourceName"] = text(), text()
	out.Properties["dependsOn"] = list("set", text())
	if scope != v1.NamespacedScope {
		out.Properties["namespace"] = text()
	}
	return out
}

// claimSpec are the machinery's fields in the spec of a claim.
func claimSpec(policy *v1.DeletePolicy) fields {
	out := choosing()
	deletion := oneOf(string(v1.DeleteBackground), string(v1.DeleteForeground))
	if policy != nil {
		deletion.Default = new(quoted(string(*policy)))
	}
	out["compositeDeletePolicy"] = deletion
	out["resourceRef"] = texts("apiVersion", "kind", "name")
	out["writeConnectionSecretToRef"] = texts("name")
	return out
}

// compositeStatus are the machinery's fields in the status of a composite.
func compositeStatus(scope v1.Scope) fields {
	if scope != v1.LegacyClusterScope {
		return fields{
			"conditions": conditions(),
			"crossplane": {Type: "object", Description: "What is known of how the object is composed", Properties: fields{"pendingResources": pending(scope)}},
		}
	}
	out := claimStatus()
	out["pendingResources"] = pending(scope)
	return out
}

// claimStatus are the machinery's fields in the status of a claim.
func claimStatus() fields {
	return fields{
		"conditions":          conditions(),
		"connectionDetails":   {Type: "object", Properties: fields{"lastPublishedTime": moment()}},
		"claimConditionTypes": list("set", text()),
	}
}

func conditions() extv1.JSONSchemaProps {
	out := list("map", extv1.JSONSchemaProps{
		Type: "object", Required: []string{"lastTransitionTime", "reason", "status", "type"},
		Properties: fields{
			"lastTransitionTime": moment(),
			"message":            text(),
			"reason":             text(),
			"status":             text(),
			"type":               text(),
			"observedGeneration": {Type: "integer", Format: "int64"},
		},
	})
	out.Description, out.XListMapKeys = "Conditions of the object", []string{"type"}
	return out
}

// pending are objects that are not created or not deleted yet because others have to be
// first.
func pending(scope v1.Scope) extv1.JSONSchemaProps {
	required := texts("name")
	required.Properties["resourceName"], required.Properties["namespace"] = text(), text()
	item := texts("apiVersion", "kind", "resourceName", "operation")
	item.Properties["operation"] = oneOf("Create", "Delete")
	item.Properties["name"], item.Properties["reason"] = text(), text()
	item.Properties["deadlocked"] = extv1.JSONSchemaProps{Type: "boolean"}
	item.Properties["dependsOn"] = list("atomic", extv1.JSONSchemaProps{Type: "object", Properties: fields{
		"type":        oneOf("ComposedResource", "RequiredResource"),
		"name":        text(),
		"requirement": required,
	}})
	if scope != v1.NamespacedScope {
		item.Properties["namespace"] = text()
	}
	return list("atomic", item)
}
