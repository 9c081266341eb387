package deftest

import (
	"encoding/xml"
	"strings"
)

// Report is the result of a test file.
type Report struct {
	// File is the path of the file, and Name the test's name.
	File, Name string
	// Failures are by step; a test that could not run has one of its own.
	Failures []Failure
	Seconds  float64
}

// Failure is what failed in a step.
type Failure struct {
	Step    string
	Message string
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Seconds float64       `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

// JUnit returns reports in the XML format of JUnit, which CI systems read: a test case for each file.
func JUnit(reports []Report) ([]byte, error) {
	s := junitSuite{Name: "espalier", Tests: len(reports)}
	for _, r := range reports {
		c := junitCase{Class: printable(r.File), Name: printable(r.Name), Seconds: r.Seconds}
		if len(r.Failures) > 0 {
			s.Failures++
			var lines []string
			for _, f := range r.Failures {
				lines = append(lines, f.Step+": "+f.Message)
			}
			c.Failure = &junitFailure{Message: printable(lines[0]), Text: printable(strings.Join(lines, "\n"))}
		}
		s.Cases = append(s.Cases, c)
	}
	raw, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	return append([]byte(xml.Header), append(raw, '\n')...), err
}

// printable replaces characters that XML does not have.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '�'
		}
		return r
	}, text)
}
