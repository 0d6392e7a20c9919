#!/usr/bin/env python3
"""Renders templates with Jinja 2, in the environment that transformers makes for chat templates.

    python3 tests/golden/jinja_cases.py > tests/golden/jinja/features.json

Needs the package jinja2. jinja_test compares jinja/ with the texts; where Jinja raises an exception, `text` is null.
"""
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {"messages":[{"role":"system","content":"You are é helpful.  "},{"role":"user","content":"  Hi <there> & \"you\"\n"},{"role":"assistant","content":"Yes","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1,"b":[1.5,None,True],"c":"x'y"}}}]},{"role":"user","content":[{"type":"text","text":"multi"},{"type":"image"}]}],"bos_token":"<s>","eos_token":"</s>","add_generation_prompt":True,"n":7,"x":-3,"f":2.5,"big":1e20,"small":1e-7,"l":[3,1,2],"words":["b","A","c"],"d":{"z":1,"a":{"b":[1,2]}},"s":"Hello World foo","u":"ÄÖÜ straße","e":"","none":None,"t":True,"tree":[{"n":"a","kids":[{"n":"b","kids":[{"n":"c","kids":[]}]},{"n":"d"}]},{"n":"e","kids":[]}],
"tools":[{"type":"function","function":{"name":"get_weather","description":"Get it","parameters":{"type":"object","properties":{"city":{"type":"string","description":"City"},"n":{"type":["integer","null"]}},"required":["city"]}}}]}

# Cases between lines of three dashes.
TEMPLATES = r'''
{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -2 ** 2 }} {{ 1e3 }} {{ 1.0 }} {{ big }} {{ small }} {{ f }}
---
{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ l[1:] }}{{ l[:-1] }}{{ l[::2] }}{{ u[1:3] }}{{ l[10:] }}{{ l[-100:2] }}{{ s[5:2] }}
---
{{ d }} {{ l }} {{ (1,) }} {{ (1,2) }} {{ none }} {{ t }} {{ messages[2].tool_calls }} {{ "it's" }} {{ ["it's", 'a"b', "\n"] }}
---
{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}
---
{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ m['role'] }}{{ loop.first }}{% else %}none{% endfor %}
---
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d | dictsort %}{{ k }}{{ v }}{% endfor %}
---
{% set ns = namespace(found=false, n=0) %}{% for x in l %}{% if x == 1 %}{% set ns.found = true %}{% endif %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.found }} {{ ns.n }}
---
{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}
---
{%- macro f(a, b=2, c='x') -%}[{{ a }}{{ b }}{{ c }}]{%- endmacro -%}{{ f(1) }}{{ f(1, c='y') }}{{ f(1, 3) }}{{ f() }}
---
{% macro rec(x) %}{% if x is mapping %}{{ '{' }}{% for k, v in x.items() %}{{ k }}:{{ rec(v) }}{% endfor %}{{ '}' }}{% elif x is iterable and x is not string %}[{% for i in x %}{{ rec(i) }}{% endfor %}]{% else %}{{ x }}{% endif %}{% endmacro %}{{ rec(d) }}{{ rec(tools) }}
---
{{ tools | tojson }}
{{ tools | tojson(indent=4) }}
{{ tools[0].function | tojson(indent=2) }}
{{ messages[2].tool_calls[0].function.arguments | tojson }} {{ u | tojson }} {{ 1.0 | tojson }} {{ none | tojson }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }}
---
{{ s | upper }} {{ s | lower }} {{ u | upper }} {{ s | title }} {{ "hELLO wORLD" | capitalize }} {{ "hello world's" | title }} {{ s.upper() }} {{ u.lower() }}
---
{{ messages[1].content | trim }}|{{ messages[1].content.strip() }}|{{ messages[1].content.lstrip() }}|{{ messages[1].content.rstrip() }}|{{ "xxaxx".strip('x') }}|{{ "  a " | trim }}|
---
{{ s.split() }} {{ s.split(' ') }} {{ s.split('o', 1) }} {{ s.split('o')[-1] }} {{ "a,,b".split(',') }} {{ "".split(',') }} {{ "".split() }} {{ s.rsplit(' ', 1) }} {{ "a\nb\r\nc".splitlines() }}
---
{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ s | replace('l', 'L') }} {{ "abc".replace('', '-') }} {{ s.startswith('He') }} {{ s.endswith(('foo', 'bar')) }} {{ s.find('World') }} {{ s.find('zz') }} {{ u.find('ß') }} {{ s.count('o') }} {{ s.rfind('o') }}
---
{{ l | sort }} {{ words | sort }} {{ l | sort(reverse=true) }} {{ l | sum }} {{ l | max }} {{ l | min }} {{ l | first }} {{ l | last }} {{ l | length }} {{ l | reverse | list }} {{ words | join('-') }} {{ l | join(', ') }} {{ [1,1,2] | unique | list }}
---
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | map(attribute='role') | join(',') }} {{ messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='content') | list }} {{ l | select('gt', 1) | list }} {{ l | map('string') | join }} {{ words | map('upper') | list }} {{ l | reject('odd') | list }}
---
{{ undefined_thing }}|{{ undefined_thing is defined }}|{{ undefined_thing | default('d') }}|{{ e | default('d') }}|{{ e | default('d', true) }}|{{ none | default('d') }}|{{ messages[0].nothing }}|{{ messages[0].nothing is none }}|{{ undefined_thing | length }}
---
{{ undefined_thing.foo }}
---
{{ undefined_thing + 1 }}
---
{{ 1 + 'a' }}
---
{{ raise_exception('Only user and assistant') }}
---
{{ 'a' in s }} {{ 'H' in s }} {{ 1 in l }} {{ 'z' in d }} {{ 'q' not in d }} {{ not 'q' in d }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ [1] == [1] }} {{ {'a': 1} == {'a': 1} }} {{ (1,) == [1] }}
---
{{ 'yes' if t else 'no' }} {{ 'yes' if none }}|{{ none or 'x' }} {{ 0 or [] or 'y' }} {{ t and 'z' }} {{ not t }} {{ 'a' ~ 1 ~ none ~ true }} {{ 'ab' * 3 }} {{ [0] * 2 }} {{ 'a' 'b' }}
---
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is number }} {{ f is float }} {{ n is integer }} {{ t is boolean }} {{ t is integer }} {{ t is number }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ s is iterable }} {{ n is iterable }} {{ none is none }} {{ t is true }} {{ t is sameas true }} {{ n is in [7] }} {{ n is not in [7] }} {{ s is not none and s is defined }} {{ n is eq 7 }} {{ n is gt 5 }} {{ f is not defined }}
---
{% set c %}block {{ n }}{% endset %}{{ c }}{{ c | length }} {% set c2 | upper %}abc{% endset %}{{ c2 }} {% filter upper %}x{{ n }}y{% endfilter %} {% with q = 3, r = 4 %}{{ q + r }}{% endwith %}{{ q }}
---
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %} {{ range(3) | list }} {{ range(1, 10, 3) | list }} {{ range(5, 0, -2) | list }}
---
  {% if true %}
    a
  {% endif %}
 b {%- if true %} c {% endif -%} d
{# comment #}
e
{{- ' f' -}}
g
   {#- x -#}   h
{%+ if true %}i{% endif +%}
j
---
{% raw %}{{ not }} {% x %}{% endraw %} {{ '{{' }} {{ "a\tb\u00e9\\" }} {{ 'x' | indent }} {{ "a\nb\n\nc" | indent(2) }} {{ "a\nb" | indent(2, true) }}
---
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{{ loop.cycle('x', 'y') }}{{ loop.revindex }}{{ loop.previtem }}{% if loop.nextitem is defined %}{{ loop.nextitem }}{% endif %}{% endfor %}
---
{% generation %}gen {{ n }}{% endgeneration %} {{ dict(a=1, b=2) }} {{ {'a': 1, **{}} if false else 1 }}
---
{{ "%s is %d" % ("x", 3) }} {{ "%05.2f" | format(3.14159) }} {{ 3.7 | int }} {{ "12" | int }} {{ "x" | int(5) }} {{ "3.5" | float }} {{ -3 | abs }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 7 | string ~ 'a' }} {{ 42 | string | length }}
---
{{ s | wordcount }} {{ "<a> & 'b'" | e }} {{ words | batch(2) | list }} {{ d.get('z') }} {{ d.get('q') }} {{ d.get('q', 9) }} {{ d.keys() | list }} {{ d.values() | list }} {{ d['a']['b'][1] }} {{ d.a.b.0 }} {{ tools[0]['function']['parameters']['properties'].items() | list }}
---
{{ messages[-1].content[0].text }} {{ messages[:2] | map(attribute='content') | map('trim') | list }} {{ messages[1:][0]['role'] }} {{ (messages | first).role }} {{ messages | length - 1 }} {{ loop is defined }}
---
{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] | trim %}{% set loop_messages = messages[1:] %}{% else %}{% set loop_messages = messages %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + (('<<SYS>>\n' + system_message + '\n<</SYS>>\n\n') if loop.first and system_message is defined else '') + (message['content'] if message['content'] is string else message['content'][0]['text']) + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + ' ' + eos_token }}{% endif %}{% endfor %}
---
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' }}{% if message.content is string %}{{ message.content }}{% else %}{% for c in message.content %}{% if c.type == 'text' %}{{ c.text }}{% elif c.type == 'image' %}<image>{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
---
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in {{ n }}{% endcall %}
---
{{ l.append(4) }}
---
{{ s | nofilter }}
---
{{ s is notest }}
---
{% include 'x' %}
---
{% if %}
---
{{ 'abc
---
{% for x in l %}
---
{{ (1 + 2 }}
---
{{ 1 is string }}
---
{{ none | selectattr('a') | list }}{{ none | map('upper') | list }}{{ 0 | select | list }}{{ undefined_thing | reject('odd') | list }}
---
{{ range(100000) | length }}
---
{{ range(100001) | length }}
---
{{ range(-5, 100000, 2) | length }} {{ range(10, 0, -3) | list }} {{ range(0) | list }}
---
{{ 3 | round }} {{ true | round }} {{ 3 | round(1) }} {{ 3 | round(0, 'ceil') }} {{ 2.5 | round }} {{ 2.675 | round(2) }}
---
{{ 'a'.center(5, '*') }} {{ 'ab'.center(5) }} {{ 'a'.center(4, 'é') }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '0') }} {{ 'abc'.center(2) }}
---
{{ 'a'.center(5, '**') }}
---
{{ 'a.b.c'.partition('.') }} {{ 'a.b.c'.rpartition('.') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ u.partition('ß')[2] }}
---
{{ 'abc'.partition('') }}
---
{{ '{} {}: {{x}} {a}'.format(1, 'b', a=none) }} {{ '{1}{0}'.format('a', 'b') }} {{ 'x'.format() }} {{ '{0}{0}'.format([1]) }}
---
{{ '{}'.format() }}
---
{{ '{'.format(1) }}
---
{{ '}'.format(1) }}
---
{{ '%300d|%-3d|%.3f|%+d' % (1, 2, 2.5, 3) }}
---
{% for x in tree recursive %}{{ loop.depth }}{{ loop.depth0 }}{{ x.n }}{% if x.kids %}({{ loop(x.kids) }}){% endif %}{{ loop.index }};{% endfor %}
---
{% for x in tree if x.n != 'd' recursive %}{{ x.n }}[{{ loop(x.kids) }}]{% else %}none{% endfor %}
---
{% set y = 'out' %}{% for x in tree recursive %}{{ y }}{% set y = x.n %}{{ y }}{% if x.kids %}{{ loop(x.kids) | upper }}{% endif %}{% endfor %}{{ y }}
---
{% for x in tree recursive %}{% for z in 'pq' %}{{ z }}{{ loop.depth }}{% endfor %}{% if x.kids %}{{ loop(iterable=x.kids) }}{% endif %}{% endfor %}
---
{% for k, v in d.items() recursive %}{{ k }}{% if v is mapping %}<{{ loop(v.items()) }}>{% endif %}{% endfor %}
---
{% for x in tree recursive %}{% if x.n == 'd' %}{% break %}{% endif %}{{ x.n }}{% if x.kids %}{{ loop(x.kids) }}{% endif %}{{ loop.last }}{% endfor %}
---
{% for x in tree recursive %}{{ loop(tree) }}{% endfor %}
---
{% for x in tree %}{{ loop(x.kids) }}{% endfor %}
---
{% for x in tree recursive %}{{ loop() }}{% endfor %}
---
{% for x in tree recursive %}{{ loop(x.kids, 1) }}{% endfor %}
---
{% for x in tree recursive %}{{ loop(7) }}{% endfor %}
---
{% for x in recursive %}{{ x }}{% endfor %}
'''


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant says; prints it as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.If(jinja2.nodes.Const(True), body, [], []).set_lineno(line)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


def render(template, variables):
    try:
        return environment().from_string(template).render(**variables)
    except Exception:  # whatever Jinja raises: the engine must refuse it too
        return None


def main():
    cases = [template.strip("\n") for template in TEMPLATES.split("\n---\n")]
    json.dump(
        {
            "variables": VARIABLES,
            "cases": [{"template": template, "text": render(template, VARIABLES)} for template in cases],
        },
        sys.stdout,
        indent=1,
    )
    print()


if __name__ == "__main__":
    main()
