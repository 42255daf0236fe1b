# cmake -DOUTPUT=FILE.cc -DFOLDER=DIR -DSTYLES=a.css,b.css -DSCRIPTS=a.js,b.js -P embed.cmake
# Writes the page's files into a C++ source, in pieces of 8000 bytes: compilers limit the length of one literal.
function(literal output text)
  set(pieces "")
  string(LENGTH "${text}" length)
  set(from 0)
  while(from LESS length)
    string(SUBSTRING "${text}" ${from} 8000 piece)
    string(APPEND pieces "    R\"embedded(${piece})embedded\"\n")
    math(EXPR from "${from} + 8000")
  endwhile()
  set(${output} "${pieces}" PARENT_SCOPE)
endfunction()

function(read_all output names)
  string(REPLACE "," ";" names "${names}")
  set(text "")
  foreach(name IN LISTS names)
    file(READ ${FOLDER}/${name} part)
    string(APPEND text "${part}")
  endforeach()
  literal(text "${text}")
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

read_all(skeleton page.html)
read_all(style ${STYLES})
read_all(script ${SCRIPTS})
file(WRITE ${OUTPUT} "// Made from client/loadgen/html/page; do not edit.
#include \"client/loadgen/report/html/page_parts.h\"

namespace softmax::client::page {

std::string Skeleton() {
  return
${skeleton};
}

std::string Style() {
  return
${style};
}

std::string Script() {
  return
${script};
}

}  // namespace softmax::client::page
")
