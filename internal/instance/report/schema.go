package report

import (
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type (
	jsonSchema = apiextensionsv1.JSONSchemaProps
	props      = map[string]jsonSchema
)

// Room says which of the fields that the dialect doesn't know the engine may
// write: those that the author didn't declare.
type Room struct {
	Waiting, Deletion, Pruning, Problems bool
	// Skipped is for graphs alone: other dialects leave nothing out.
	Skipped bool
}

// AllRoom is, of what all dialects tell, what an author leaves who declares none of the engine's fields.
var AllRoom = Room{Waiting: true, Deletion: true, Pruning: true, Problems: true}

// Within is the room that both leave.
func (r Room) Within(other Room) Room {
	return Room{
		Waiting: r.Waiting && other.Waiting, Deletion: r.Deletion && other.Deletion, Pruning: r.Pruning && other.Pruning,
		Problems: r.Problems && other.Problems, Skipped: r.Skipped && other.Skipped,
	}
}

// RoomIn says what room the schema of the author's status leaves; nil leaves all.
func RoomIn(author *apiextensionsv1.JSONSchemaProps) Room {
	free := func(field string) bool {
		if author == nil {
			return true
		}
		_, taken := author.Properties[field]
		return !taken
	}
	return Room{Waiting: free(WaitingField), Deletion: free(DeletionField), Pruning: free(PruningField), Problems: free(ProblemsField), Skipped: free(SkippedField)}
}

// Schema adds the fields that the engine writes to those of the author's status;
// nil has none. Of those that the dialect doesn't know, an author's field of the
// same name wins.
func Schema(author *apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	out := jsonSchema{Type: "object"}
	if author != nil {
		author.DeepCopyInto(&out)
	}
	fields := Fields(AllRoom)
	fields[SkippedField] = skipped()
	maps.Copy(fields, out.Properties)
	fields[StateField] = text("ACTIVE, IN_PROGRESS, SUSPENDED, DELETING or ERROR")
	fields[ConditionsField] = conditions()
	out.Properties = fields
	return out
}

// Fields are the schemas of the engine's fields that there is room for, whatever the
// dialect.
func Fields(room Room) map[string]apiextensionsv1.JSONSchemaProps {
	fields := props{}
	for field, f := range map[string]struct {
		free   bool
		schema func() jsonSchema
	}{
		WaitingField: {room.Waiting, waiting}, DeletionField: {room.Deletion, deletion},
		PruningField: {room.Pruning, pruning}, ProblemsField: {room.Problems, problems},
	} {
		if f.free {
			fields[field] = f.schema()
		}
	}
	return fields
}

func text(description string) jsonSchema { return jsonSchema{Type: "string", Description: description} }

func number(description string) jsonSchema {
	return jsonSchema{Type: "integer", Description: description}
}

func record(description string, fields props) jsonSchema {
	return jsonSchema{Type: "object", Description: description, Properties: fields}
}

func list(description string, item jsonSchema) jsonSchema {
	return jsonSchema{Type: "array", Description: description, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func conditions() jsonSchema {
	return list("", record("", props{
		"type":               text(""),
		"status":             text(""),
		"reason":             text(""),
		"message":            text(""),
		"lastTransitionTime": text(""),
		"observedGeneration": number(""),
	}))
}

func waiting() jsonSchema {
	return list("What the resources of this instance wait for", record("", props{
		"node":     text("The resource that waits"),
		"reason":   text(""),
		"on":       text("What it waits for, such as vpc.status.vpcID"),
		"since":    text("When it was first found missing"),
		"attempts": number("How often it has been tried"),
	}))
}

func deletion() jsonSchema {
	return record("How far the deletion of this instance has come", props{
		"startedAt":  text(""),
		"policy":     text("Background or Orphan: what becomes of the resources"),
		"total":      number("How many objects are to be removed"),
		"removed":    number("How many of them are gone"),
		"remaining":  number("How many are not"),
		"percent":    number("Removed of total"),
		"progress":   text("Removed and total in a word"),
		"wave":       number("Which wave is being removed, from 1: what was applied last goes first"),
		"waves":      number("How many waves there are"),
		"blocked":    number("How many objects hold the deletion up"),
		"blockers":   list("What holds the deletion up", blocker()),
		"left":       number("How many objects were let go of and exist still"),
		"leftBehind": list("What was let go of because somebody asked for that; it may exist still", blocker()),
	})
}

func pruning() jsonSchema {
	return list("Objects that nothing wants any more and that aren't gone yet", blocker())
}

func problems() jsonSchema {
	return list("Why resources of this instance aren't as they should be", record("", props{
		"node":    text("The resource"),
		"reason":  text(""),
		"message": text("What is wrong, and what to do about it"),
		"since":   text("When it was first found"),
	}))
}

func skipped() jsonSchema {
	return list("Resources that are left out", record("", props{
		"node":      text("The resource that is left out"),
		"by":        text("The resource whose condition it was: itself, or one that it depends on"),
		"condition": text("What is false"),
		"inputs":    list("What the condition read", text("")),
	}))
}

func blocker() jsonSchema {
	fields := hold()
	fields["node"] = text("The resource that made the object")
	fields["cause"] = record("The deepest known cause", hold())
	return record("", fields)
}

func hold() props {
	return props{
		"object": record("", props{
			"apiVersion": text(""), "kind": text(""), "namespace": text(""), "name": text(""),
		}),
		"reason":     text(""),
		"message":    text(""),
		"since":      text(""),
		"inProgress": {Type: "boolean", Description: "Nobody reports a problem: there is nothing to do but to wait"},
		"finalizers": list("", record("", props{
			"name": text(""), "managers": list("Who put it on", text("")),
		})),
	}
}
