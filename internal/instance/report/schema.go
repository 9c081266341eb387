package report

import (
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type (
	jsonSchema = apiextensionsv1.JSONSchemaProps
	props      = map[string]jsonSchema
)

// FieldSet says which fields the engine may write beside the dialect's: those that the author
// didn't declare.
type FieldSet struct {
	Waiting, Deletion, Pruning, Problems, ObservedGeneration bool
	// Skipped is for graphs only: other dialects leave no resources out.
	Skipped bool
}

// AllFields are the fields of all dialects, for an author who declares none of them.
var AllFields = FieldSet{Waiting: true, Deletion: true, Pruning: true, Problems: true, ObservedGeneration: true}

// Intersect returns the fields that are in both sets.
func (r FieldSet) Intersect(other FieldSet) FieldSet {
	return FieldSet{
		Waiting: r.Waiting && other.Waiting, Deletion: r.Deletion && other.Deletion, Pruning: r.Pruning && other.Pruning,
		Problems: r.Problems && other.Problems, Skipped: r.Skipped && other.Skipped,
		ObservedGeneration: r.ObservedGeneration && other.ObservedGeneration,
	}
}

// UndeclaredFields returns the fields that the schema of the author's status doesn't declare;
// all of them for nil.
func UndeclaredFields(author *apiextensionsv1.JSONSchemaProps) FieldSet {
	undeclared := func(field string) bool {
		if author == nil {
			return true
		}
		_, declared := author.Properties[field]
		return !declared
	}
	return FieldSet{
		Waiting: undeclared(WaitingField), Deletion: undeclared(DeletionField), Pruning: undeclared(PruningField), Problems: undeclared(ProblemsField),
		Skipped: undeclared(SkippedField), ObservedGeneration: undeclared(ObservedGenerationField),
	}
}

// Schema adds the engine's fields to the schema of the author's status, which may be nil. A field that the author
// declares too is the author's, except for the fields of the dialect.
func Schema(author *apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	out := jsonSchema{Type: "object"}
	if author != nil {
		author.DeepCopyInto(&out)
	}
	fields := Fields(AllFields)
	fields[SkippedField] = skippedSchema()
	maps.Copy(fields, out.Properties)
	fields[StateField] = text("ACTIVE, IN_PROGRESS, SUSPENDED, DELETING or ERROR")
	fields[ConditionsField] = conditionsSchema()
	out.Properties = fields
	SetDefault(&out, UndeclaredFields(author))
	return out
}

// SetDefault gives new objects a status that has not observed their generation: kstatus takes an object without
// a status for complete. A status that the author's rules may reject has no default.
func SetDefault(status *apiextensionsv1.JSONSchemaProps, fields FieldSet) {
	if !fields.ObservedGeneration || status.Default != nil || len(status.Required) > 0 || len(status.XValidations) > 0 || status.MinProperties != nil ||
		len(status.AllOf) > 0 || len(status.AnyOf) > 0 || len(status.OneOf) > 0 || status.Not != nil {
		return
	}
	status.Default = &apiextensionsv1.JSON{Raw: []byte(`{"` + ObservedGenerationField + `":-1}`)}
}

// Fields returns the schemas of the engine's fields in the set, for any dialect.
func Fields(set FieldSet) map[string]apiextensionsv1.JSONSchemaProps {
	fields := props{}
	for field, f := range map[string]struct {
		written bool
		schema  func() jsonSchema
	}{
		WaitingField: {set.Waiting, waitingSchema}, DeletionField: {set.Deletion, deletionSchema},
		PruningField: {set.Pruning, pruningSchema}, ProblemsField: {set.Problems, problemsSchema},
		ObservedGenerationField: {set.ObservedGeneration, observedGenerationSchema},
	} {
		if f.written {
			fields[field] = f.schema()
		}
	}
	return fields
}

func text(description string) jsonSchema { return jsonSchema{Type: "string", Description: description} }

func number(description string) jsonSchema {
	return jsonSchema{Type: "integer", Description: description}
}

func objectOf(description string, fields props) jsonSchema {
	return jsonSchema{Type: "object", Description: description, Properties: fields}
}

func list(description string, item jsonSchema) jsonSchema {
	return jsonSchema{Type: "array", Description: description, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func conditionsSchema() jsonSchema {
	return list("", objectOf("", props{
		"type":               text(""),
		"status":             text(""),
		"reason":             text(""),
		"message":            text(""),
		"lastTransitionTime": text(""),
		"observedGeneration": number(""),
	}))
}

func observedGenerationSchema() jsonSchema {
	out := number("The generation of the object that this status is of")
	out.Format = "int64"
	return out
}

func waitingSchema() jsonSchema {
	return list("What the resources of this instance wait for", objectOf("", props{
		"node":     text("The resource that waits"),
		"reason":   text(""),
		"on":       text("What it waits for, such as vpc.status.vpcID"),
		"since":    text("When it was first found missing"),
		"attempts": number("How often it has been tried"),
	}))
}

func deletionSchema() jsonSchema {
	return objectOf("How far the deletion of this instance has come", props{
		"startedAt":  text(""),
		"policy":     text("Background or Orphan: what becomes of the resources"),
		"total":      number("How many objects are to be removed"),
		"removed":    number("How many of them are gone"),
		"remaining":  number("How many are not"),
		"percent":    number("Removed of total"),
		"progress":   text("Removed and total as text"),
		"wave":       number("Which wave is being removed, from 1: what was applied last goes first"),
		"waves":      number("How many waves there are"),
		"blocked":    number("How many objects block the deletion"),
		"blockers":   list("What blocks the deletion", blockerSchema()),
		"left":       number("How many objects were left behind and may still exist"),
		"leftBehind": list("Objects that were left behind by force; they may still exist", blockerSchema()),
	})
}

func pruningSchema() jsonSchema {
	return list("Objects that are no longer desired and not gone yet", blockerSchema())
}

func problemsSchema() jsonSchema {
	return list("Why resources of this instance can't be applied or aren't ready", objectOf("", props{
		"node":    text("The resource"),
		"reason":  text(""),
		"message": text("What is wrong, and what to do about it"),
		"since":   text("When it was first found"),
	}))
}

func skippedSchema() jsonSchema {
	return list("Resources that are left out", objectOf("", props{
		"node":      text("The resource that is left out"),
		"by":        text("The resource whose condition it was: itself, or one that it depends on"),
		"condition": text("What is false"),
		"inputs":    list("What the condition read", text("")),
	}))
}

func blockerSchema() jsonSchema {
	fields := blockedObjectFields()
	fields["node"] = text("The resource that made the object")
	fields["cause"] = objectOf("The deepest known cause", blockedObjectFields())
	return objectOf("", fields)
}

func blockedObjectFields() props {
	return props{
		"object": objectOf("", props{
			"apiVersion": text(""), "kind": text(""), "namespace": text(""), "name": text(""),
		}),
		"reason":     text(""),
		"message":    text(""),
		"since":      text(""),
		"inProgress": {Type: "boolean", Description: "Nobody reports a problem: there is nothing to do but to wait"},
		"finalizers": list("", objectOf("", props{
			"name": text(""), "managers": list("Managers that added it", text("")),
		})),
	}
}
