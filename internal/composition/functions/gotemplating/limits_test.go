package gotemplating

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// TestARenderingIsBounded has templates that would take all time or memory, or end the process. They get a part of the
// work, so that the test is fast.
func TestARenderingIsBounded(t *testing.T) {
	const (
		tooMuch  = "the templates do too much"
		bytes    = "the result has more than 4194304 bytes"
		items    = "the result has more than 100000 items"
		itself   = "nested more than 200 levels deep, or contains itself"
		levels   = "the templates are nested too deeply"
		blocks   = "has blocks or brackets in more than 1000 levels"
		steps    = "needs too many steps"
		noSuch   = " not defined"
		negative = "negative Repeat count"
		bomb     = "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]"
		aliases  = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" + bomb
	)
	cases := map[string]struct{ template, want string }{
		"many iterations":                       {`{{range 1000000000}}{{end}}`, tooMuch},
		"nested iterations":                     {`{{$l := until 9000}}{{range $l}}{{range $l}}{{range $l}}{{end}}{{end}}{{end}}`, tooMuch},
		"iterations that continue":              {`{{range 1000000000}}{{continue}}{{end}}`, tooMuch},
		"a long list":                           {`{{until 1000000000}}`, items},
		"a long list backwards":                 {`{{until -1000000000}}`, items},
		"a long list with steps":                {`{{untilStep 0 -1000000000 -1}}`, items},
		"a long list as a text":                 {`{{seq 1 1000000000}}`, items},
		"a list that doubles":                   {`{{$d := list "x"}}{{range until 60}}{{$d = concat $d $d}}{{end}}`, tooMuch},
		"a map that grows":                      {`{{$d := dict}}{{range $i, $_ := until 99999}}{{$_ := set $d (print $i) $i}}{{end}}`, tooMuch},
		"a template that calls itself":          {`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, levels},
		"one that includes itself":              {`{{define "a"}}{{include "a" .}}{{end}}{{include "a" .}}`, levels},
		"one that includes itself twice":        {`{{define "a"}}{{include "a" (include "a" .)}}{{end}}{{template "a"}}`, levels},
		"two that call each other":              {`{{define "a"}}{{template "b"}}{{end}}{{define "b"}}{{include "a" .}}{{end}}{{template "a"}}`, levels},
		"all templates that call themselves":    {`{{template "manifests"}}`, levels},
		"deep blocks that call themselves":      {`{{define "a"}}` + strings.Repeat("{{with 1}}", 990) + `{{include "a" .}}` + strings.Repeat("{{end}}", 991) + `{{template "a"}}`, levels},
		"templates side by side":                {`{{define "a"}}{{end}}{{range 1000000000}}{{template "a"}}{{end}}`, tooMuch},
		"a branching recursion":                 {`{{define "a"}}{{if lt . 50}}{{template "a" add1 .}}{{template "a" add1 .}}{{end}}{{end}}{{template "a" 0}}`, tooMuch},
		"deep blocks":                           {strings.Repeat("{{if 1}}", 2000) + strings.Repeat("{{end}}", 2000), blocks},
		"many alternatives":                     {"{{if 0}}" + strings.Repeat("{{else if 0}}", 2000) + "{{end}}", blocks},
		"deep brackets":                         {"{{" + strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000) + "}}", blocks},
		"a text that doubles":                   {`{{$s := "aaaaaaaaaaaaaaaa"}}{{range until 100}}{{$s = print $s $s}}{{end}}`, tooMuch},
		"texts that are kept":                   {`{{$l := list}}{{range until 10000}}{{$l = append $l (repeat 100000 "x")}}{{end}}`, tooMuch},
		"a text that repeats":                   {`{{repeat 1000000000 "x"}}`, bytes},
		"a text that repeats less than once":    {`{{repeat -1 "x"}}`, negative},
		"a wide format":                         {`{{printf "%1000000d%1000000d%1000000d%1000000d%1000000d" 1 1 1 1 1}}`, bytes},
		"a precise format":                      {`{{printf "%.1000000f%.1000000f%.1000000f%.1000000f%.1000000f" 1. 1. 1. 1. 1.}}`, bytes},
		"a width in an argument":                {`{{printf "%*d%*d%*d%*d%*d" 1000000 1 1000000 1 1000000 1 1000000 1 1000000 1}}`, bytes},
		"a format that repeats its argument":    {`{{printf (repeat 10000 "%[1]s") (repeat 10000 "x")}}`, bytes},
		"a deep indentation":                    {`{{indent 1000000000 "a"}}`, bytes},
		"an indentation of many lines":          {`{{nindent 10000 (repeat 10000 "\n")}}`, bytes},
		"a replacement that is long":            {`{{$s := repeat 10000 "a"}}{{replace "a" $s $s}}`, bytes},
		"a replacement of nothing":              {`{{$s := repeat 10000 "a"}}{{replace "" $s $s}}`, bytes},
		"a long separator":                      {`{{$s := repeat 10000 "a"}}{{join $s (splitList "" $s)}}`, bytes},
		"a long end of lines":                   {`{{$s := repeat 10000 "a"}}{{wrapWith 1 $s $s}}`, bytes},
		"an expression replaced by a long text": {`{{$s := repeat 10000 "a"}}{{regexReplaceAll "a" $s $s}}`, bytes},
		"an expression replaced by itself":      {`{{$s := repeat 10000 "a"}}{{regexReplaceAll "a+" $s (repeat 10000 "$0")}}`, bytes},
		"a slow expression":                     {`{{$s := repeat 100000 "a"}}{{regexMatch "(a?){1000}a{1000}" $s}}`, steps},
		"an expression that reads the rest":     {`{{$s := repeat 20000 "a"}}{{regexFindAll ".*b|a" $s -1}}`, steps},
		"quotes of quotes":                      {`{{$s := "\""}}{{range until 100}}{{$s = quote $s}}{{end}}`, tooMuch},
		"long random values":                    {`{{randAlphaNum 1000000000}}`, bytes},
		"a list that is compared with itself":   {`{{uniq (until 10000)}}`, tooMuch},
		"many keys":                             {`{{range until 1000}}{{$_ := derivePassword 1 "long" "a" "b" "c"}}{{end}}`, tooMuch},
		"a map that contains itself":            {`{{$d := dict}}{{$_ := set $d "a" $d}}{{$d}}`, itself},
		"the same as JSON":                      {`{{$d := dict}}{{$_ := set $d "a" $d}}{{toJson $d}}`, itself},
		"the same as YAML":                      {`{{$_ := set . "a" .}}{{toYaml .}}`, itself},
		"the same compared":                     {`{{$d := dict}}{{$_ := set $d "a" $d}}{{deepEqual $d (dict "a" $d)}}`, itself},
		"the same by merging":                   {`{{$d := dict}}{{$e := dict "a" $d}}{{$_ := merge $d $e}}{{$d}}`, itself},
		"the same formatted":                    {`{{$d := dict}}{{$_ := set $d "a" $d}}{{printf "%v" $d}}`, itself},
		"a deep value":                          {`{{$d := dict}}{{range until 500}}{{$d = dict "a" $d}}{{end}}{{$d | deepCopy}}`, itself},
		"a value with the same part everywhere": {`{{$d := list "x"}}{{range until 60}}{{$d = list $d $d}}{{end}}{{$d}}`, tooMuch},
		"deep JSON":                             {`{{fromJson (print (repeat 5000 "[") (repeat 5000 "]"))}}`, itself},
		"YAML with many values":                 {`{{fromYaml (repeat 200000 "- \n")}}`, "the text has more than 100000 values"},
		"YAML with many aliases":                {"{{fromYaml `" + aliases + "`}}", "aliases make the document too large"},
		"an output with many aliases":           {aliases, "aliases make the document too large"},
		"an output with many values":            {`{{range until 3}}{{repeat 90000 "- \n"}}{{end}}`, "the output has more than 250000 values"},
		"a long output":                         {strings.Repeat(`{{template "a"}}`, 5000) + `{{define "a"}}` + strings.Repeat("x", 1000) + `{{end}}`, errOutput.Error()},
		"a long text":                           {strings.Repeat("x", maxTemplate+1), "the templates have 524289 bytes, over the limit of 524288"},
		"nothing to choose from":                {`{{randomChoice}}`, "there is nothing to choose from"},
		"variables of the environment":          {`{{env "PATH"}}`, `function "env"` + noSuch},
		"the network":                           {`{{getHostByName "example.org"}}`, `function "getHostByName"` + noSuch + ": templates have no access"},
		"less depth than there is":              {`{{leave 100}}`, `function "leave"` + noSuch},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := &input{Source: inline}
			in.Inline.Template = tc.template
			e := &execution{left: maxWork / 16}
			if strings.Contains(tc.template, "repeat 100000") || strings.Contains(tc.template, "1000000f") || strings.Contains(tc.template, "fromYaml") {
				e.left = maxWork
			}
			_, err := e.render(in, map[string]any{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q, got %.300v", tc.want, err)
			}
		})
	}
}

func TestUsualTemplatesAreFarFromTheLimits(t *testing.T) {
	in := &input{Source: inline}
	in.Inline.Template = `{{define "one"}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  annotations: { {{ setResourceNameAnnotation (printf "%s-%d" .root.name .index) }} }
data:
  arn: {{ printf "arn:aws:iam::123456789012:role/%s" .root.name | quote }}
  clean: {{ .root.name | lower | regexReplaceAll "[^a-z0-9]+" "-" | trunc 63 | trimSuffix "-" }}
  all: {{ .root | toJson | quote }}
{{end}}{{range $i := until 2000}}{{include "one" (dict "root" $ "index" $i)}}{{end}}`
	e := &execution{left: maxWork}
	objects, err := e.render(in, map[string]any{"name": "corner", "spec": map[string]any{"a": []any{"b", int64(1)}}})
	if err != nil || len(objects) != 2000 {
		t.Fatalf("got %d objects, %v", len(objects), err)
	}
	if e.left < maxWork/2 {
		t.Errorf("2000 objects take %d of %d", maxWork-e.left, maxWork)
	}
}

// TestARenderingEndsWithItsCall has templates that run for seconds, and a call that was given up.
func TestARenderingEndsWithItsCall(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("nobody waits")
	cancel(gone)
	in, err := structpb.NewStruct(map[string]any{"apiVersion": APIVersion, "kind": Kind, "source": inline, "inline": map[string]any{"template": `{{range 1000}}{{end}}`}})
	if err != nil {
		t.Fatal(err)
	}
	response, err := Run(ctx, &fnv1.RunFunctionRequest{Input: in})
	if err != nil || len(response.GetResults()) != 1 || !strings.Contains(response.GetResults()[0].GetMessage(), gone.Error()) {
		t.Errorf("got %v, %v", response, err)
	}
}
