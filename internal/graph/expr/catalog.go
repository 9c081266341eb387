package expr

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
)

// Function is a function, an operator or a macro that expressions may use.
type Function struct {
	// Name is what authors write: "join", "hash.sha256", or an operator such as "+".
	Name string
	// Signatures are its overloads. Overloads that differ only in one type are merged into
	// one signature over T. Operators and macros have none.
	Signatures []string
	// Operator and Macro say that it is not a function.
	Operator, Macro bool
	// ConditionsOnly says that only the expressions of status.conditions may use it.
	ConditionsOnly bool
}

// Functions lists, sorted by name, all functions, operators and macros of the dialect,
// except those that only the CEL compiler generates.
func Functions() ([]Function, error) {
	env, err := NewEnv(nil, Limits{})
	if err != nil {
		return nil, err
	}
	more, _, err := env.withConditions()
	if err != nil {
		return nil, err
	}
	common, all := declaredFunctions(env.cel), declaredFunctions(more.cel)
	out := make([]Function, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		_, everywhere := common[name]
		f.ConditionsOnly = !everywhere
		out = append(out, f)
	}
	return out, nil
}

// receivers are the prefixes of macros that are not called on a value.
var receivers = map[string]string{"bind": "cel.", "newCondition": "runtime.", "now": "time."}

func declaredFunctions(env *cel.Env) map[string]Function {
	out := map[string]Function{}
	for name, f := range env.Functions() {
		if op, is := operator(name); is {
			if op != "" {
				out[op] = Function{Name: op, Operator: true}
			}
			continue
		}
		var signatures []overload
		for _, o := range f.OverloadDecls() {
			signatures = append(signatures, signatureOf(name, o.IsMemberFunction(), o.ArgTypes(), o.ResultType()))
		}
		out[name] = Function{Name: name, Signatures: mergeSignatures(signatures)}
	}
	for _, m := range env.Macros() {
		name := receivers[m.Function()] + m.Function()
		if _, function := out[name]; !function {
			out[name] = Function{Name: name, Macro: true}
		}
	}
	return out
}

// operator returns how authors write an operator, which CEL declares as a function such as
// _+_. It is empty for operators that only the CEL compiler generates.
func operator(name string) (written string, is bool) {
	switch {
	case name == "@in":
		return "in", true
	case strings.Contains(name, "@"), strings.HasPrefix(name, "__"), name == "in", name == "_in_":
		return "", true
	case name == "_[_]":
		return "[]", true
	case name == "_[?_]":
		return "[?]", true
	case name == "_?_:_":
		return "?:", true
	case name == "_?._":
		return ".?", true
	case strings.HasPrefix(name, "_"), strings.HasSuffix(name, "_"):
		return strings.Trim(name, "_"), true
	}
	return "", false
}

type overload struct {
	call   string
	member bool
	types  []string // of the arguments, then of the result
}

func signatureOf(name string, member bool, args []*cel.Type, result *cel.Type) overload {
	o := overload{call: name, member: member}
	for _, t := range args {
		o.types = append(o.types, typeText(t))
	}
	o.types = append(o.types, typeText(result))
	return o
}

func (o overload) String() string {
	last := len(o.types) - 1
	call, args := o.call, o.types[:last]
	if o.member {
		call, args = args[0]+"."+call, args[1:]
	}
	return call + "(" + strings.Join(args, ", ") + ") → " + o.types[last]
}

// generalized returns the overload with T in place of its first type, or of that type's item type, in its arguments
// and, if result is true, in its result.
func (o overload) generalized(result bool) (text, of string) {
	of = strings.TrimSuffix(strings.TrimPrefix(o.types[0], "list("), ")")
	general := overload{call: o.call, member: o.member, types: slices.Clone(o.types)}
	for i, t := range o.types {
		switch {
		case i == len(o.types)-1 && !result:
		case t == of:
			general.types[i] = "T"
		case t == "list("+of+")":
			general.types[i] = "list(T)"
		}
	}
	return general.String(), of
}

const minMergedOverloads = 4

// mergeSignatures returns the signatures, sorted; those of one form are merged over T.
func mergeSignatures(all []overload) []string {
	forms := map[string][]string{}
	all = slices.DeleteFunc(all, overload.isIdentity)
	for _, o := range all {
		if len(o.types) < 2 {
			continue
		}
		for _, result := range []bool{false, true} {
			text, of := o.generalized(result)
			if !slices.Contains(forms[text], of) {
				forms[text] = append(forms[text], of)
			}
		}
	}
	var out []string
	for _, o := range all {
		text, most := o.String(), minMergedOverloads-1
		for _, result := range []bool{false, true} {
			if len(o.types) < 2 {
				break
			}
			if general, _ := o.generalized(result); len(forms[general]) > most {
				slices.Sort(forms[general])
				text, most = general+", T: "+strings.Join(forms[general], ", "), len(forms[general])
			}
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isIdentity reports whether the overload converts a value to its own type.
func (o overload) isIdentity() bool {
	return !o.member && len(o.types) == 2 && o.types[0] == o.types[1] && o.types[0] == o.call
}

var typeNames = strings.NewReplacer(
	"kubernetes.", "", "net.", "", "google.protobuf.Timestamp", "timestamp", "google.protobuf.Duration", "duration",
	"optional_type", "optional", "<", "", ">", "", "object(condition)", "condition",
)

// typeText names a type as the reference does: without packages, and a type parameter by
// its letter.
func typeText(t *cel.Type) string { return typeNames.Replace(t.String()) }
