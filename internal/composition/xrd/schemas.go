package xrd

import (
	"strconv"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

type schemas = map[string]extv1.JSONSchemaProps

func jsonString(value string) extv1.JSON { return extv1.JSON{Raw: []byte(strconv.Quote(value))} }

func selectorSchema() extv1.JSONSchemaProps {
	label := stringSchema()
	return extv1.JSONSchemaProps{Type: "object", Required: []string{"matchLabels"}, Properties: schemas{
		"matchLabels": {Type: "object", AdditionalProperties: &extv1.JSONSchemaPropsOrBool{Allows: true, Schema: &label}},
	}}
}

func selectionSchemas() schemas {
	return schemas{
		"compositionRef":              stringsSchema("name"),
		"compositionSelector":         selectorSchema(),
		"compositionRevisionRef":      stringsSchema("name"),
		"compositionRevisionSelector": selectorSchema(),
		"compositionUpdatePolicy":     enumSchema(string(v1.UpdateAutomatic), string(v1.UpdateManual)),
	}
}

func compositeSpecSchemas(scope v1.Scope, policy *v1.UpdatePolicy) schemas {
	out := selectionSchemas()
	if policy != nil {
		follow := out["compositionUpdatePolicy"]
		follow.Default = new(jsonString(string(*policy)))
		out["compositionUpdatePolicy"] = follow
	}
	out["resourceRefs"] = listSchema("atomic", resourceRefSchema(scope))
	if scope != v1.LegacyClusterScope {
		return schemas{"crossplane": {Type: "object", Description: "How the object is composed", Properties: out}}
	}
	out["claimRef"] = stringsSchema("apiVersion", "kind", "namespace", "name")
	out["writeConnectionSecretToRef"] = stringsSchema("name", "namespace")
	return out
}

// resourceRefSchema is the schema of a reference to a composed object. For a namespaced composite it has no
// namespace.
func resourceRefSchema(scope v1.Scope) extv1.JSONSchemaProps {
	out := stringsSchema("apiVersion", "kind")
	out.Properties["name"], out.Properties["resourceName"] = stringSchema(), stringSchema()
	out.Properties["dependsOn"] = listSchema("set", stringSchema())
	if scope != v1.NamespacedScope {
		out.Properties["namespace"] = stringSchema()
	}
	return out
}

func claimSpecSchemas(policy *v1.DeletePolicy) schemas {
	out := selectionSchemas()
	deletion := enumSchema(string(v1.DeleteBackground), string(v1.DeleteForeground))
	if policy != nil {
		deletion.Default = new(jsonString(string(*policy)))
	}
	out["compositeDeletePolicy"] = deletion
	out["resourceRef"] = stringsSchema("apiVersion", "kind", "name")
	out["writeConnectionSecretToRef"] = stringsSchema("name")
	return out
}

func compositeStatusSchemas(scope v1.Scope) schemas {
	if scope != v1.LegacyClusterScope {
		return schemas{
			"conditions": conditionsSchema(),
			"crossplane": {Type: "object", Description: "What is known of how the object is composed", Properties: schemas{"pendingResources": pendingSchema(scope)}},
		}
	}
	out := claimStatusSchemas()
	out["pendingResources"] = pendingSchema(scope)
	return out
}

func claimStatusSchemas() schemas {
	return schemas{
		"conditions":          conditionsSchema(),
		"connectionDetails":   {Type: "object", Properties: schemas{"lastPublishedTime": dateTimeSchema()}},
		"claimConditionTypes": listSchema("set", stringSchema()),
	}
}

func conditionsSchema() extv1.JSONSchemaProps {
	out := listSchema("map", extv1.JSONSchemaProps{
		Type: "object", Required: []string{"lastTransitionTime", "reason", "status", "type"},
		Properties: schemas{
			"lastTransitionTime": dateTimeSchema(),
			"message":            stringSchema(),
			"reason":             stringSchema(),
			"status":             stringSchema(),
			"type":               stringSchema(),
			"observedGeneration": {Type: "integer", Format: "int64"},
		},
	})
	out.Description, out.XListMapKeys = "Conditions of the object", []string{"type"}
	return out
}

// pendingSchema is the schema of pendingResources: objects that are not created or deleted yet because other ones
// have to be created or deleted first.
func pendingSchema(scope v1.Scope) extv1.JSONSchemaProps {
	required := stringsSchema("name")
	required.Properties["resourceName"], required.Properties["namespace"] = stringSchema(), stringSchema()
	item := stringsSchema("apiVersion", "kind", "resourceName", "operation")
	item.Properties["operation"] = enumSchema("Create", "Delete")
	item.Properties["name"], item.Properties["reason"] = stringSchema(), stringSchema()
	item.Properties["deadlocked"] = extv1.JSONSchemaProps{Type: "boolean"}
	item.Properties["dependsOn"] = listSchema("atomic", extv1.JSONSchemaProps{Type: "object", Properties: schemas{
		"type":        enumSchema("ComposedResource", "RequiredResource"),
		"name":        stringSchema(),
		"requirement": required,
	}})
	if scope != v1.NamespacedScope {
		item.Properties["namespace"] = stringSchema()
	}
	return listSchema("atomic", item)
}

func stringSchema() extv1.JSONSchemaProps { return extv1.JSONSchemaProps{Type: "string"} }

func dateTimeSchema() extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{Type: "string", Format: "date-time"}
}

func enumSchema(values ...string) extv1.JSONSchemaProps {
	out := stringSchema()
	for _, v := range values {
		out.Enum = append(out.Enum, jsonString(v))
	}
	return out
}

func stringsSchema(names ...string) extv1.JSONSchemaProps {
	out := extv1.JSONSchemaProps{Type: "object", Required: names, Properties: schemas{}}
	for _, name := range names {
		out.Properties[name] = stringSchema()
	}
	return out
}

func listSchema(kind string, item extv1.JSONSchemaProps) extv1.JSONSchemaProps {
	return extv1.JSONSchemaProps{Type: "array", XListType: &kind, Items: &extv1.JSONSchemaPropsOrArray{Schema: &item}}
}
