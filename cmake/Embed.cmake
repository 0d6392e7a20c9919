# cmake -DINPUT=FILE -DOUTPUT=FILE.c -DHEADER=HEADER.h -DNAME=pf_name -P Embed.cmake
# Writes a C file with the bytes of INPUT as pf_name [pf_name_bytes], which HEADER declares.
file(READ ${INPUT} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR n "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}\n};\nconst size_t ${NAME}_bytes = ${n};\n")
