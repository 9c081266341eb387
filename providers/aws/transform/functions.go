package transform

import (
	"errors"
	"math"
	"regexp"
	"strings"
)

// The transforms of AWS use these functions of JSONata. A call with a first argument without a value has none either;
// arguments of other types are errors.
var functions map[string]func(args []any) (any, error)

func init() { //nolint:gochecknoinits // the parser refers to the functions
	functions = map[string]func([]any) (any, error){
		"lowercase":       ofText(strings.ToLower),
		"uppercase":       ofText(strings.ToUpper),
		"trim":            ofText(func(s string) string { return strings.Join(strings.Fields(s), " ") }),
		"string":          certain(stringOf),
		"number":          numberOf,
		"floor":           floor,
		"join":            join,
		"split":           split,
		"replace":         replace,
		"substring":       substring,
		"substringAfter":  cut(func(before, after string) string { return after }),
		"substringBefore": cut(func(before, after string) string { return before }),
		"contains":        containsText,
		"count":           certain(count),
		"exists":          certain(func(args []any) any { return args[0] != nil }),
		"not":             certain(func(args []any) any { return !truth(args[0]) }),
		"lookup":          lookup,
		"match":           match,
	}
}

var errArguments = errors.New("a function is called with arguments that it does not take")

func ofText(f func(string) string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		text, ok := args[0].(string)
		switch {
		case args[0] == nil:
			return nil, nil
		case !ok:
			return nil, errArguments
		}
		return f(text), nil
	}
}

func certain(f func(args []any) any) func([]any) (any, error) {
	return func(args []any) (any, error) { return f(args), nil }
}

func stringOf(args []any) any {
	if args[0] == nil {
		return nil
	}
	return toText(args[0])
}

func numberOf(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	return number(args[0])
}

func floor(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	f, ok := asNumber(args[0])
	if !ok {
		return nil, errArguments
	}
	return math.Floor(f), nil
}

func textAt(args []any, i int) (string, error) {
	if i >= len(args) {
		return "", errArguments
	}
	text, ok := args[i].(string)
	if !ok {
		return "", errArguments
	}
	return text, nil
}

func join(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	separator := ""
	if len(args) > 1 && args[1] != nil {
		var err error
		if separator, err = textAt(args, 1); err != nil {
			return nil, err
		}
	}
	list, ok := args[0].([]any)
	if !ok {
		list = []any{args[0]}
	}
	parts := make([]string, len(list))
	size := 0
	for i := range list {
		var err error
		if parts[i], err = textAt(list, i); err != nil {
			return nil, err
		}
		size += len(parts[i]) + len(separator)
	}
	if size > maxString {
		return nil, errTooMuch
	}
	return strings.Join(parts, separator), nil
}

func split(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	text, ok := args[0].(string)
	if !ok || len(args) < 2 {
		return nil, errArguments
	}
	var parts []string
	switch by := args[1].(type) {
	case string:
		parts = strings.Split(text, by)
	case *regexp.Regexp:
		parts = by.Split(text, -1)
	default:
		return nil, errArguments
	}
	if len(args) > 2 {
		limit, ok := asNumber(args[2])
		if !ok || limit < 0 {
			return nil, errArguments
		}
		parts = parts[:min(int(limit), len(parts))]
	}
	out := make([]any, len(parts))
	for i, part := range parts {
		out[i] = part
	}
	return out, nil
}

// group is a reference to a group in a replacement, such as $1.
var group = regexp.MustCompile(`\$([0-9])`)

func replace(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	text, ok := args[0].(string)
	if !ok || len(args) < 3 {
		return nil, errArguments
	}
	with, err := textAt(args, 2)
	if err != nil {
		return nil, err
	}
	if len(text)*(len(with)+1) > maxString*16 {
		return nil, errTooMuch
	}
	switch old := args[1].(type) {
	case string:
		if old == "" {
			return nil, errArguments
		}
		return strings.ReplaceAll(text, old, with), nil
	case *regexp.Regexp:
		return old.ReplaceAllString(text, group.ReplaceAllString(with, "$${$1}")), nil
	}
	return nil, errArguments
}

func substring(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	text, ok := args[0].(string)
	if !ok || len(args) < 2 {
		return nil, errArguments
	}
	runes := []rune(text)
	start, ok := asNumber(args[1])
	if !ok {
		return nil, errArguments
	}
	from := int(start)
	if from < 0 {
		from = max(0, len(runes)+from)
	}
	from = min(from, len(runes))
	to := len(runes)
	if len(args) > 2 {
		length, ok := asNumber(args[2])
		if !ok {
			return nil, errArguments
		}
		to = min(to, from+max(0, int(length)))
	}
	return string(runes[from:to]), nil
}

func cut(choose func(before, after string) string) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if args[0] == nil {
			return nil, nil
		}
		text, err := textAt(args, 0)
		if err != nil {
			return nil, err
		}
		at, err := textAt(args, 1)
		if err != nil {
			return nil, err
		}
		before, after, found := strings.Cut(text, at)
		if !found {
			return text, nil
		}
		return choose(before, after), nil
	}
}

func containsText(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	text, err := textAt(args, 0)
	if err != nil || len(args) < 2 {
		return nil, errArguments
	}
	if re, isRegexp := args[1].(*regexp.Regexp); isRegexp {
		return re.MatchString(text), nil
	}
	part, err := textAt(args, 1)
	return strings.Contains(text, part), err
}

func count(args []any) any {
	switch v := args[0].(type) {
	case nil:
		return 0.0
	case []any:
		return float64(len(v))
	}
	return 1.0
}

func lookup(args []any) (any, error) {
	if len(args) > 1 && args[1] == nil {
		return nil, nil
	}
	name, err := textAt(args, 1)
	if err != nil {
		return nil, err
	}
	return field(args[0], name), nil
}

func match(args []any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	text, ok := args[0].(string)
	if !ok || len(args) < 2 {
		return nil, errArguments
	}
	re, ok := args[1].(*regexp.Regexp)
	if !ok {
		return nil, errArguments
	}
	found := re.FindStringSubmatch(text)
	if found == nil {
		return nil, nil
	}
	groups := make([]any, len(found)-1)
	for i, g := range found[1:] {
		groups[i] = g
	}
	return map[string]any{"match": found[0], "groups": groups}, nil
}
