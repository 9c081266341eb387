package gotemplating

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

type input struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Delims     struct {
		Left  string `json:"left"`
		Right string `json:"right"`
	} `json:"delims"`
	Source string `json:"source"`
	Inline struct {
		Template  string   `json:"template"`
		Templates []string `json:"templates"`
	} `json:"inline"`
	FileSystem struct {
		DirPath string `json:"dirPath"`
	} `json:"fileSystem"`
	Environment struct {
		Key string `json:"key"`
	} `json:"environment"`
	TTL     string   `json:"ttl"`
	Options []string `json:"options"`
}

// The sources of templates.
const (
	inline      = "Inline"
	fileSystem  = "FileSystem"
	environment = "Environment"
)

var sources = []string{inline, environment, fileSystem}

var options = []string{"missingkey=default", "missingkey=invalid", "missingkey=zero", "missingkey=error"}

// maxTemplate bounds the bytes of the templates of a step.
const maxTemplate = 512 << 10

var errFileSystem = errors.New("FileSystem is not available in the built-in function, which reads no files: " +
	"use Inline, or Environment with an EnvironmentConfig, or serve the function as a program of its own")

// decode returns the input with its problems, and notes on what has no effect. A source that only another program can read
// is no problem of the input.
func decode(from map[string]any) (in *input, ttl time.Duration, problems, notes diag.List) {
	in = &input{}
	if len(from) == 0 {
		problems.Addf("", "the input is missing; expected %s of %s", Kind, APIVersion)
		return in, 0, problems, nil
	}
	strict.Decode(from, in, "", &problems)
	if in.Kind != Kind || in.APIVersion != APIVersion {
		notes.Addf("kind", "is %s of %q, not %s of %s", in.Kind, in.APIVersion, Kind, APIVersion)
	}
	switch {
	case in.Source == "":
		problems.Add(diag.Diagnostic{Path: "source", Problem: "is not set", Expected: strings.Join(sources, ", ")})
	case !slices.Contains(sources, in.Source):
		problems.Add(diag.Diagnostic{
			Path: "source", Problem: "cannot be " + strconv.Quote(diag.Truncate(in.Source, 100)),
			Expected: strings.Join(sources, ", "), Nearest: diag.Nearest(in.Source, sources),
		})
	case in.Source == inline && in.Inline.Template == "" && len(in.Inline.Templates) == 0:
		problems.Addf("inline", "has neither template nor templates")
	case in.Source == environment && in.Environment.Key == "":
		problems.Addf("environment.key", "is not set")
	case in.Source == fileSystem:
		notes.Addf("source", "%v", errFileSystem)
	}
	for i, option := range in.Options {
		if !slices.Contains(options, option) {
			problems.Add(diag.Diagnostic{
				Path: object.Path("options").Index(i), Problem: "cannot be " + strconv.Quote(diag.Truncate(option, 100)),
				Expected: strings.Join(options, ", "), Nearest: diag.Nearest(option, options),
			})
		}
	}
	if in.TTL != "" {
		var err error
		if ttl, err = time.ParseDuration(in.TTL); err != nil || ttl < 0 {
			problems.Addf("ttl", "%q is not a duration", diag.Truncate(in.TTL, 100))
		}
	}
	return in, ttl, problems.Sorted(), notes.Sorted()
}

const betweenTemplates = "\n---\n"

// templates returns the text of the templates, from the input or the environment in the pipeline's context.
func (in *input) templates(context map[string]any) (text string, err error) {
	switch in.Source {
	case fileSystem:
		return "", errFileSystem
	case environment:
		fields, _ := context[environmentKey].(map[string]any)
		value, has := fields[in.Environment.Key]
		if !has {
			return "", fmt.Errorf("the environment has no field %q (environment.key)", diag.Truncate(in.Environment.Key, 100))
		}
		var isText bool
		if text, isText = value.(string); !isText {
			return "", fmt.Errorf("the field %q of the environment (environment.key) is not a string", diag.Truncate(in.Environment.Key, 100))
		}
	default:
		if text = in.Inline.Template; text == "" {
			text = strings.Join(in.Inline.Templates, betweenTemplates)
		}
	}
	if len(text) > maxTemplate {
		return "", fmt.Errorf("the templates have %d bytes, over the limit of %d", len(text), maxTemplate)
	}
	return text, nil
}

// Check lists the problems that make the function fail with an input, and notes on what may have no effect.
func Check(from map[string]any) (problems, notes diag.List) {
	in, _, problems, notes := decode(from)
	if len(problems) > 0 || in.Source != inline {
		return problems, notes // templates of the environment exist only in a pipeline
	}
	text, err := in.templates(nil)
	if err == nil {
		_, err = (&execution{}).parse(in, text)
	}
	if err != nil {
		problems.Add(in.diagnose(text, err))
	}
	return problems, notes
}

// Invalid lists the problems that make the built-in function fail with an input, whatever the composite.
func Invalid(from map[string]any) diag.List {
	problems, _ := Check(from)
	if source, _ := from["source"].(string); source == fileSystem {
		problems.Addf("source", "%v", errFileSystem)
	}
	return problems
}

var parseError = regexp.MustCompile(`^template: ` + rootName + `:(\d+):(?:\d+:)? (?s:(.*))$`)

// diagnose finds the place of an error of the parser, which has the number of the line in the joined templates.
func (in *input) diagnose(text string, err error) diag.Diagnostic {
	d := diag.Diagnostic{Path: "inline.template", Problem: err.Error()}
	parts := parseError.FindStringSubmatch(err.Error())
	if parts == nil {
		if in.Inline.Template == "" {
			d.Path = "inline.templates"
		}
		return d
	}
	line, _ := strconv.Atoi(parts[1])
	d.Problem = parts[2]
	if in.Inline.Template == "" {
		for i, item := range in.Inline.Templates {
			d.Path, text = object.Path("inline.templates").Index(i), item
			lines := strings.Count(item, "\n") + 1
			if line <= lines || i == len(in.Inline.Templates)-1 {
				break
			}
			line -= lines + 1
		}
	}
	d.Expr, d.Offset = text, offsetOfLine(text, line, in.Delims.Left)
	return d
}

// offsetOfLine is the byte at which the first action of a line begins, or its text.
func offsetOfLine(text string, line int, delimiter string) int {
	offset := 0
	for range line - 1 {
		i := strings.IndexByte(text[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	rest, _, _ := strings.Cut(text[offset:], "\n")
	if delimiter == "" {
		delimiter = "{{"
	}
	if i := strings.Index(rest, delimiter); i >= 0 {
		return offset + i
	}
	return offset + len(rest) - len(strings.TrimLeft(rest, " \t"))
}
