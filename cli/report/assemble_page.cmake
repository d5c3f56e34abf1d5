# Writes the page that `moelab report` fills in: page/page.html with its style, its scripts and Vega in it.
#   cmake -DPAGE=<folder of the page's files> -DVEGA=<folder of Vega's parts> -DLICENCES=<file>;<file> -DOUTPUT=<file to write>
#         -P assemble_page.cmake
# The page allows no scripts but these two: it names them by their SHA-256. Nothing comes from any network, and Vega
# runs its expressions by its interpreter, so that none becomes code.
cmake_minimum_required(VERSION 3.25)

# Without the tail that names a source map: there is none in the page.
function(read_script file out)
  file(READ "${file}" text)
  string(REGEX REPLACE "\n//# sourceMappingURL=[^\n]*\n?$" "\n" text "${text}")
  string(FIND "${text}" "</script" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${file} holds '</script', which would end it inside the page")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# Base64 of the SHA-256 of a text, as Content-Security-Policy wants it.
function(integrity_of text out)
  string(SHA256 hex "${text}")
  set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(APPEND hex "00")  # 33 bytes: eleven groups of three; the last digit becomes the padding
  set(base64 "")
  foreach(group RANGE 10)
    math(EXPR begin "6 * ${group}")
    string(SUBSTRING "${hex}" ${begin} 6 bytes)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${bytes} >> ${shift}) & 63")
      string(SUBSTRING "${digits}" ${digit} 1 digit)
      string(APPEND base64 "${digit}")
    endforeach()
  endforeach()
  string(SUBSTRING "${base64}" 0 43 base64)
  set(${out} "'sha256-${base64}='" PARENT_SCOPE)
endfunction()

set(vega "\nconst parts = {\n")
foreach(part util canvas time format loader dataflow statistics expression event-selector scale scenegraph selection
             functions runtime view parser transforms view-transforms encode interpreter)
  read_script("${VEGA}/vega-${part}.min.js" text)
  string(APPEND vega "'vega-${part}'(exports, module, require) {\n${text}},\n")
endforeach()
read_script("${PAGE}/../vega_parts.js" text)
string(APPEND vega "};\n${text}")

set(script "\n'use strict';\n")
foreach(name data table specs parts load requests charts world page)
  read_script("${PAGE}/${name}.js" text)
  string(APPEND script "${text}")
endforeach()

set(licences "")
foreach(file IN LISTS LICENCES)
  file(READ "${file}" text)
  string(APPEND licences "${text}\n")
endforeach()
string(REPLACE "&" "&amp;" licences "${licences}")
string(REPLACE "<" "&lt;" licences "${licences}")

file(READ "${PAGE}/page.css" style)
file(READ "${PAGE}/page.html" page)
integrity_of("${vega}" vega_integrity)
integrity_of("${script}" script_integrity)
foreach(name vega_integrity script_integrity style licences vega script)
  string(REPLACE "{{${name}}}" "${${name}}" page "${page}")
endforeach()
file(WRITE "${OUTPUT}" "${page}")
